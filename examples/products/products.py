"""Fine-grained descriptions of product photographs, three styles each, reviewed by sample."""

import loupe
from loupe import Caption, Image, Rejection


class Attributes(loupe.Record, kind="attributes"):
    """What a shop filters by."""

    colour: str
    material: str | None = None


@loupe.step(version="1", parallel="process")
def sharp(image: Image) -> bool | Rejection:
    """Keeps photographs whose Laplacian varies enough."""
    if loupe.images.sharpness(image) < 60:
        return Rejection.of("blurred", "The photograph is blurred.")
    return True


attributes = loupe.llm_step("attributes.md", version="1", inputs=Caption, outputs=Attributes)

pipeline = loupe.Pipeline(
    "shop",
    version="0.1.0",
    tags=["products"],
    sources=[
        loupe.source(
            "csv",
            "shop.csv",
            images="photos",
            identity="sku",
            captions=["title"],
            licence="CC0-1.0",
        )
    ],
    steps=[
        sharp,
        loupe.steps.near_duplicates(),
        loupe.steps.describe("describe.md", styles=["catalogue", "plain", "expert"]),
        loupe.steps.check("form"),
        attributes,
        loupe.gate("descriptions", of=Caption, page="text", policy="auto"),
        loupe.release(test_share=0.2),
    ],
)

if __name__ == "__main__":
    print(pipeline.preview(3))
    report = pipeline.run()
    print(report)
    if report.release_id:
        print(report.release.to_arrow().to_pylist()[0]["captions"])
