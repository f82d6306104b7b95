"""Sample descriptions as detailed as those of UFine6926."""

DESCRIPTIONS = (
    (
        "A slim young woman with fair skin and a long black ponytail wears a white "
        "short-sleeved T-shirt with a small red logo on the chest, tucked into light blue jeans "
        "that end above her ankles. On her feet are white sneakers with grey soles and short "
        "white socks. She carries a black leather bag on her left shoulder, holds a phone in "
        "her right hand and walks towards the camera, looking down at the screen, with no "
        "glasses and no hat on her head."
    ),
    (
        "A stocky middle-aged man with short grey hair and a beard has a dark green jacket open "
        "over a black and white checked shirt. His brown trousers are held by a black belt and "
        "reach down to brown leather shoes. He wears glasses with a thin frame, has a brown "
        "briefcase in his left hand and stands still, turned half to the right, as if he waited "
        "for somebody."
    ),
    (
        "An elderly woman of small stature with curly white hair wears a long beige coat with "
        "large buttons and a patterned blue scarf around her neck. Below it one sees dark grey "
        "trousers and black shoes with low heels. She pushes a checked shopping trolley with "
        "her right hand, has no bag on her shoulder, and walks slowly to the left."
    ),
    (
        "A tall young man with brown skin and short black curls wears a yellow hooded "
        "sweatshirt with long sleeves and black letters on the back, black shorts that end at "
        "the knee, white socks and red running shoes. A grey backpack hangs on both his "
        "shoulders. He runs away from the camera with nothing in his hands."
    ),
    (
        "A teenage girl with a slender build and straight blond hair to her shoulders is "
        "dressed in a pink sleeveless top, a short denim skirt and white sandals. She wears a "
        "straw hat with a black ribbon and large sunglasses, carries a white cloth bag over her "
        "right shoulder and leans against a wall, drinking from a bottle."
    ),
    (
        "A man of medium build, about thirty, with a shaved head and tanned skin wears a plain "
        "navy polo shirt, khaki trousers rolled up above the ankles and blue canvas shoes "
        "without socks. On his left wrist is a silver watch. He rides a black bicycle to the "
        "right, both hands on the handlebars, with a small black bag across his chest."
    ),
)
