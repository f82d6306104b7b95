"""The pictures of proposals on a page."""

from html import escape

from annotate.interfaces.page import image_address
from db.reviews import ShownImage
from schemas.proposals import Picture


def shown_image(picture: Picture) -> ShownImage:
    """The picture as one that the image server has to hand out."""
    return ShownImage(picture.sha256, picture.media_type, picture.image_id)


def picture_tag(picture: Picture, images_url: str) -> str:
    """The picture as HTML."""
    return f'<img src="{escape(image_address(images_url, picture.sha256))}" alt="">'
