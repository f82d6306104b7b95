"""Names and values that programs are made of."""

NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Iris", "Jack", "Lena")
FRUIT = ("apple", "banana", "cherry", "grape", "lemon", "mango", "orange", "peach", "pear", "plum")
ANIMALS = ("bear", "cat", "dog", "eagle", "fox", "goat", "horse", "lion", "mouse", "otter", "owl")
COLOURS = ("amber", "black", "blue", "brown", "green", "orange", "pink", "purple", "red", "white")
CITIES = ("Berlin", "Cairo", "Delhi", "Lima", "London", "Madrid", "Oslo", "Paris", "Rome", "Tokyo")
WORDS = (
    "algorithm", "backward", "calendar", "daylight", "elephant", "forest", "garden", "harbour",
    "island", "journey", "kitchen", "lantern", "mountain", "notebook", "ocean", "picture",
    "question", "rainbow", "station", "teacher", "umbrella", "village", "window", "yesterday",
)  # fmt: skip
POOLS = (FRUIT, ANIMALS, COLOURS, CITIES, NAMES)
POOL_NAMES = {
    FRUIT: "fruits",
    ANIMALS: "animals",
    COLOURS: "colours",
    CITIES: "cities",
    NAMES: "names",
}
TOTALS = ("total", "result", "acc", "s", "amount")
LISTS = ("numbers", "values", "data", "items", "nums")
