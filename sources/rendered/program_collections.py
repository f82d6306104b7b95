"""Families of programs about lists, strings and dictionaries, mostly in Python."""

from sources.demonstration.chance import Chance
from sources.rendered.program_words import LISTS, POOL_NAMES, POOLS, WORDS
from sources.rendered.programs import Sketch, sketch


def slices(chance: Chance) -> Sketch:
    """A slice of a list, whose end is easily taken for one too far."""
    numbers = [chance.whole(1, 40) for _ in range(chance.whole(6, 9))]
    name, start, stop = chance.pick(LISTS), chance.whole(0, 3), chance.whole(4, 6)
    cut = chance.pick((f"{start}:{stop}", f"{start}:-1", "1:-2", f":{stop}:2", "::-2", f"-{stop}:"))
    does = chance.pick(("sum", "len", "max", "list"))
    return sketch(
        "list slice",
        chance.pick(("slices", "cut", "window", "part")),
        (
            f"the slice {name}[{cut}] is taken from a list of {len(numbers)} numbers",
            f"the function {does} is applied to the slice",
        ),
        f"{name} = {numbers}\npart = {name}[{cut}]\nprint({does}(part))",
    )


def word_slice(chance: Chance) -> Sketch:
    """A slice of a word."""
    word = chance.pick(WORDS)
    start, stop = chance.whole(0, 2), chance.whole(3, len(word) - 1)
    cut = chance.pick((f"[{start}:{stop}]", "[::-1]", f"[{start}::2]", f"[:{stop}][::-1]", "[-3:]"))
    tail = chance.pick(("", ".upper()", ' + "!"', " * 2"))
    return sketch(
        "string slice",
        chance.pick(("strings", "letters", "word", "slice_word")),
        (f"the word is {word}", f"the word is sliced by {cut}"),
        f'word = "{word}"\nprint(word{cut}{tail})',
    )


def comprehension(chance: Chance) -> Sketch:
    """A list comprehension with a condition."""
    stop, rest, power = (
        chance.whole(6, 14),
        chance.whole(2, 4),
        chance.pick(("n * n", "2 * n")),
    )
    condition = f"n % {rest} == {chance.whole(0, rest - 1)}"
    does = chance.pick(("sum", "len", "max", "list"))
    return sketch(
        "list comprehension",
        chance.pick(("squares", "comprehension", "choose")),
        (
            f"a list comprehension takes {power} for each n that fulfils {condition}",
            f"n runs over range({stop})",
        ),
        f"chosen = [{power} for n in range({stop}) if {condition}]\nprint({does}(chosen))",
    )


def vowels(chance: Chance) -> Sketch:
    """Letters of a word that are, or are not, among some letters."""
    word, letters = chance.pick(WORDS), chance.pick(("aeiou", "aei", "nrst", "abcdef", "eo"))
    negated = "not in" if chance.happens(0.3) else "in"
    return sketch(
        "loop over a string",
        chance.pick(("vowels", "letters", "count_letters")),
        (
            f"the letters of the word {word} are looked at one by one",
            f"letters {negated} {letters} are counted",
        ),
        (
            f'word = "{word}"\ncount = 0\nfor letter in word:\n'
            f'    if letter {negated} "{letters}":\n        count += 1\nprint(count)'
        ),
        javascript=(
            f'const word = "{word}";\nlet count = 0;\nfor (const letter of word) {{\n'
            f'  if ({"!" if "not" in negated else ""}"{letters}".includes(letter)) {{\n'
            "    count++;\n  }\n}\nconsole.log(count);"
        ),
    )


def dictionary_sum(chance: Chance) -> Sketch:
    """A dictionary whose values are chosen by a condition."""
    pool = chance.pick(POOLS)
    keys = chance.shuffled(pool)[: chance.whole(3, 5)]
    stock = {key: chance.whole(1, 20) for key in keys}
    bound, name = chance.whole(4, 12), chance.pick(("stock", "points", "counts", "ages"))
    listed = ", ".join(f'"{key}": {value}' for key, value in stock.items())
    what = chance.pick(("sum", "keys"))
    python = f"{name} = {{{listed}}}\n"
    if what == "sum":
        python += f"total = 0\nfor key, value in {name}.items():\n    if value >= {bound}:\n"
        python += "        total += value\nprint(total)"
    else:
        python += (
            f"kept = [key for key in {name} if {name}[key] >= {bound}]\nprint(len(kept), kept[:1])"
        )
    return sketch(
        "dictionary",
        chance.pick(("stock", "lookup", "dictionary", "inventory")),
        (
            f"a dictionary maps {len(keys)} {POOL_NAMES[pool]} to numbers",
            f"values of at least {bound} are kept",
        ),
        python,
    )


def dictionary_count(chance: Chance) -> Sketch:
    """Counts how often something occurs."""
    pool = chance.pick(POOLS)
    few = chance.shuffled(pool)[:3]
    seen = [chance.pick(few) for _ in range(chance.whole(5, 7))]
    asked = chance.pick(few)
    listed = ", ".join(f'"{one}"' for one in seen)
    return sketch(
        "dictionary",
        chance.pick(("counter", "frequency", "tally")),
        (
            f"a dictionary counts how often each of {len(seen)} words occurs",
            f"the count of {asked} is printed",
        ),
        (
            f"words = [{listed}]\ncounts = {{}}\nfor word in words:\n"
            "    counts[word] = counts.get(word, 0) + 1\n"
            f'print(counts.get("{asked}", 0), len(counts))'
        ),
    )


def list_changes(chance: Chance) -> Sketch:
    """A list that is changed in place several times."""
    numbers = [chance.whole(1, 9) for _ in range(chance.whole(4, 5))]
    name = chance.pick(LISTS)
    changes = (
        f"{name}.append({chance.whole(1, 9)})",
        f"{name}.pop()",
        f"{name}.pop(0)",
        f"{name}.insert({chance.whole(0, 2)}, {chance.whole(1, 9)})",
        f"{name}.reverse()",
        f"{name}.sort()",
        f"{name}[0], {name}[-1] = {name}[-1], {name}[0]",
        f"{name}[{chance.whole(0, 2)}] *= {chance.whole(2, 4)}",
    )
    lines = chance.shuffled(changes)[: chance.whole(2, 4)]
    return sketch(
        "list methods",
        chance.pick(("changes", "mutate", "list_steps")),
        (
            f"the list {name} is changed {len(lines)} times and then printed",
            f"the list starts with {len(numbers)} numbers",
        ),
        "\n".join((f"{name} = {numbers}", *lines, f"print({name})")),
    )


def join_words(chance: Chance) -> Sketch:
    """A string that is built from words."""
    pool = chance.pick(POOLS)
    words = chance.shuffled(pool)[: chance.whole(3, 4)]
    piece = chance.pick(("w[0]", "w[:2]", "w[-1]", "w.upper()", "str(len(w))"))
    glue = chance.pick(("-", "", " ", "+", "/"))
    listed = ", ".join(f'"{one}"' for one in words)
    return sketch(
        "strings in a list",
        chance.pick(("join", "initials", "build_text")),
        (
            f"a list holds {len(words)} {POOL_NAMES[pool]}",
            f"the pieces {piece} are joined into one string",
        ),
        f'words = [{listed}]\nprint("{glue}".join({piece} for w in words))',
    )


def best_index(chance: Chance) -> Sketch:
    """The place of the largest or smallest number."""
    numbers = [chance.whole(1, 60) for _ in range(chance.whole(5, 7))]
    name, sign = chance.pick(LISTS), chance.pick("<>")
    said = "largest" if sign == ">" else "smallest"
    listed = ", ".join(map(str, numbers))
    return sketch(
        "search in a list",
        chance.pick(("search", "best", "position")),
        (
            f"the program looks for the {said} number and its index",
            f"the list {name} holds {len(numbers)} numbers",
        ),
        (
            f"{name} = [{listed}]\nbest = 0\nfor i, n in enumerate({name}):\n"
            f"    if n {sign} {name}[best]:\n        best = i\nprint(best, {name}[best])"
        ),
        javascript=(
            f"const {name} = [{listed}];\nlet best = 0;\n{name}.forEach((n, i) => {{\n"
            f"  if (n {sign} {name}[best]) {{\n    best = i;\n  }}\n}});\n"
            f"console.log(best, {name}[best]);"
        ),
    )
