"""Programs whose output is asked for: what they are made of, and what they print."""

from collections.abc import Callable, Collection, Mapping

from schemas.base import Record
from sources.demonstration.people import Chance

# Names and values that programs are made of.

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


# Short programs that print one line, drawn from a grammar of several families.
#
# A family gives one program in every language that it knows. What it prints is not computed here:
# the program is run.

Sources = Mapping[str, str]


class Program(Record):
    """A program in one language.

    Attributes:
        family: what it is about: `while loop`.
        language: a name of `languages.LANGUAGES`.
        text: its lines.
        file_stem: what its file is called, without suffix.
        facts: what can be said of it besides what it prints.
    """

    family: str
    language: str
    text: str
    file_stem: str
    facts: tuple[str, ...]


class Sketch(Record):
    """A program before its language is chosen: its text by language, Python always among them."""

    family: str
    file_stem: str
    texts: dict[str, str]
    facts: tuple[str, ...]

    def program(self, language: str) -> Program:
        """The program in `language`, or in Python where the family does not know that one."""
        chosen = language if language in self.texts else "python"
        return Program(
            family=self.family,
            language=chosen,
            text=self.texts[chosen].strip("\n"),
            file_stem=self.file_stem,
            facts=self.facts,
        )


Family = Callable[[Chance], Sketch]


def sketch(
    family: str, file_stem: str, facts: tuple[str, ...], python: str, **others: str
) -> Sketch:
    """A sketch from the texts of its languages."""
    texts = {"python": python, **others}
    return Sketch(family=family, file_stem=file_stem, texts=texts, facts=facts)


# Families of programs about lists, strings and dictionaries, mostly in Python.


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


# Families of programs about numbers: loops, conditions, recursion, in several languages.


def range_sum(chance: Chance) -> Sketch:
    """A loop that adds up multiples over a range."""
    low, count, step = chance.whole(0, 5), chance.whole(3, 8), chance.whole(1, 3)
    stop, factor, t = low + count * step, chance.whole(1, 5), chance.pick(TOTALS)
    term = "i" if factor == 1 else f"i * {factor}"
    facts = (
        f"a for loop counts from {low} up to but not including {stop} in steps of {step}",
        f"the variable {t} starts at 0 and grows by {term} in each round",
    )
    inner = f"{low}, {stop}" if step == 1 else f"{low}, {stop}, {step}"
    return sketch(
        "for loop",
        chance.pick(("totals", "loop", "add_up", "range_sum")),
        facts,
        f"{t} = 0\nfor i in range({inner}):\n    {t} += {term}\nprint({t})",
        javascript=(
            f"let {t} = 0;\nfor (let i = {low}; i < {stop}; i += {step}) {{\n"
            f"  {t} += {term};\n}}\nconsole.log({t});"
        ),
        perl=(
            f"my ${t} = 0;\nfor (my $i = {low}; $i < {stop}; $i += {step}) {{\n"
            f"    ${t} += {term.replace('i', '$i', 1)};\n}}\nprint ${t};"
        ),
        ruby=f"{t} = 0\n({low}...{stop}).step({step}) do |i|\n  {t} += {term}\nend\nputs {t}",
        bash=(
            f"{t}=0\nfor ((i = {low}; i < {stop}; i += {step})); do\n"
            f"  {t}=$(({t} + {term}))\ndone\necho ${t}"
        ),
    )


def count_if(chance: Chance) -> Sketch:
    """A condition that counts, or adds up, some numbers of a list."""
    numbers = [chance.whole(1, 30) for _ in range(chance.whole(5, 8))]
    divisor, bound, name = chance.whole(2, 5), chance.whole(8, 20), chance.pick(LISTS)
    by_rest = chance.happens(0.5)
    condition = f"n % {divisor} == 0" if by_rest else f"n > {bound}"
    what, grow = chance.pick((("count", "1"), ("total", "n")))
    said = f"are divisible by {divisor}" if by_rest else f"are greater than {bound}"
    does = "counts the numbers that" if grow == "1" else "adds up the numbers that"
    listed = ", ".join(map(str, numbers))
    return sketch(
        "condition in a loop",
        chance.pick(("filter", "check", "select", "count_if")),
        (f"the program {does} {said}", f"{len(numbers)} numbers are looked at"),
        (
            f"{name} = [{listed}]\n{what} = 0\nfor n in {name}:\n    if {condition}:\n"
            f"        {what} += {grow}\nprint({what})"
        ),
        javascript=(
            f"const {name} = [{listed}];\nlet {what} = 0;\nfor (const n of {name}) {{\n"
            f"  if ({condition.replace('==', '===')}) {{\n    {what} += {grow};\n  }}\n}}\n"
            f"console.log({what});"
        ),
        perl=(
            f"my @{name} = ({listed});\nmy ${what} = 0;\nforeach my $n (@{name}) {{\n"
            f"    if (${condition}) {{\n        ${what} += {grow.replace('n', '$n')};\n    }}\n}}\n"
            f"print ${what};"
        ),
        ruby=(
            f"{name} = [{listed}]\n{what} = 0\n{name}.each do |n|\n"
            f"  {what} += {grow} if {condition}\nend\nputs {what}"
        ),
        bash=(
            f"{what}=0\nfor n in {listed.replace(',', '')}; do\n  if (({condition})); then\n"
            f"    {what}=$(({what} + {grow}))\n  fi\ndone\necho ${what}"
        ),
    )


def while_halving(chance: Chance) -> Sketch:
    """A while loop that divides until nothing is left, and counts its rounds."""
    start, divisor, t = chance.whole(20, 900), chance.whole(2, 5), chance.pick(("steps", "k"))
    facts = (
        f"a while loop divides n by {divisor} until it is 0",
        f"the variable n starts at {start}",
    )
    return sketch(
        "while loop",
        chance.pick(("steps", "halving", "divide", "countdown")),
        facts,
        f"n = {start}\n{t} = 0\nwhile n > 0:\n    n = n // {divisor}\n    {t} += 1\nprint({t})",
        javascript=(
            f"let n = {start};\nlet {t} = 0;\nwhile (n > 0) {{\n"
            f"  n = Math.floor(n / {divisor});\n  {t}++;\n}}\nconsole.log({t});"
        ),
        perl=(
            f"my $n = {start};\nmy ${t} = 0;\nwhile ($n > 0) {{\n"
            f"    $n = int($n / {divisor});\n    ${t}++;\n}}\nprint ${t};"
        ),
        ruby=f"n = {start}\n{t} = 0\nwhile n > 0\n  n /= {divisor}\n  {t} += 1\nend\nputs {t}",
        bash=(
            f"n={start}\n{t}=0\nwhile ((n > 0)); do\n  n=$((n / {divisor}))\n"
            f"  {t}=$(({t} + 1))\ndone\necho ${t}"
        ),
    )


def while_growth(chance: Chance) -> Sketch:
    """A while loop that multiplies until a bound is passed."""
    start, factor = chance.whole(1, 6), chance.whole(2, 4)
    bound, more = chance.whole(40, 500), chance.whole(0, 4)
    change = f"x * {factor}" + (f" + {more}" if more else "")
    facts = (
        f"a while loop runs as long as x is less than {bound}",
        f"in each round x becomes {change}",
        f"the variable x starts at {start}",
    )
    perl_change = change.replace("x", "$x")
    return sketch(
        "while loop",
        chance.pick(("grow", "double", "until", "limit")),
        facts,
        f"x = {start}\nwhile x < {bound}:\n    x = {change}\nprint(x)",
        javascript=(
            f"let x = {start};\nwhile (x < {bound}) {{\n  x = {change};\n}}\nconsole.log(x);"
        ),
        perl=f"my $x = {start};\nwhile ($x < {bound}) {{\n    $x = {perl_change};\n}}\nprint $x;",
        ruby=f"x = {start}\nwhile x < {bound}\n  x = {change}\nend\nputs x",
        bash=f"x={start}\nwhile ((x < {bound})); do\n  x=$(({change}))\ndone\necho $x",
    )


def recursive_sum(chance: Chance) -> Sketch:
    """A function that calls itself with a smaller number."""
    step, n, base = chance.whole(1, 3), chance.whole(4, 12), chance.whole(0, 3)
    sign = chance.weigh({"+": 3, "*": 1})
    if sign == "*":
        n, base = chance.whole(3, 6), 1
    name = chance.pick(("f", "g", "solve", "walk", "climb"))
    facts = (
        f"the function {name} calls itself with n - {step}",
        f"the function {name} returns {base} when n is not positive",
        f"{name} is called with {n}",
    )
    return sketch(
        "recursion",
        chance.pick(("recursion", "recursive", "descend", "steps_down")),
        facts,
        (
            f"def {name}(n):\n    if n <= 0:\n        return {base}\n"
            f"    return n {sign} {name}(n - {step})\n\nprint({name}({n}))"
        ),
        javascript=(
            f"function {name}(n) {{\n  if (n <= 0) {{\n    return {base};\n  }}\n"
            f"  return n {sign} {name}(n - {step});\n}}\n\nconsole.log({name}({n}));"
        ),
        perl=(
            f"sub {name} {{\n    my $n = shift;\n    return {base} if $n <= 0;\n"
            f"    return $n {sign} {name}($n - {step});\n}}\n\nprint {name}({n});"
        ),
        ruby=(
            f"def {name}(n)\n  return {base} if n <= 0\n  n {sign} {name}(n - {step})\nend\n\n"
            f"puts {name}({n})"
        ),
    )


def recursive_pair(chance: Chance) -> Sketch:
    """A function that calls itself twice, like Fibonacci's."""
    first, second, n = chance.whole(0, 3), chance.whole(1, 4), chance.whole(4, 9)
    name = chance.pick(("fib", "f", "series", "rabbits"))
    facts = (
        f"the function {name} adds the results of two calls of itself",
        f"{name}(0) is {first} and {name}(1) is {second}",
        f"{name} is called with {n}",
    )
    return sketch(
        "recursion",
        chance.pick(("fibonacci", "series", "two_calls")),
        facts,
        (
            f"def {name}(n):\n    if n == 0:\n        return {first}\n    if n == 1:\n"
            f"        return {second}\n    return {name}(n - 1) + {name}(n - 2)\n\n"
            f"print({name}({n}))"
        ),
        javascript=(
            f"function {name}(n) {{\n  if (n === 0) return {first};\n"
            f"  if (n === 1) return {second};\n"
            f"  return {name}(n - 1) + {name}(n - 2);\n}}\n\nconsole.log({name}({n}));"
        ),
        ruby=(
            f"def {name}(n)\n  return {first} if n == 0\n  return {second} if n == 1\n"
            f"  {name}(n - 1) + {name}(n - 2)\nend\n\nputs {name}({n})"
        ),
    )


def nested_loops(chance: Chance) -> Sketch:
    """Two loops, one inside the other."""
    outer, inner = chance.whole(2, 6), chance.whole(2, 6)
    body = chance.pick(("1", "i", "j", "i * j", "i + j"))
    low = chance.whole(0, 1)
    facts = (
        "a for loop stands inside another for loop",
        f"the innermost line adds {body} to count",
    )
    start = f"{low}, " if low else ""
    return sketch(
        "nested loops",
        chance.pick(("pairs", "grid", "nested", "table")),
        facts,
        (
            f"count = 0\nfor i in range({start}{outer}):\n    for j in range({inner}):\n"
            f"        count += {body}\nprint(count)"
        ),
        javascript=(
            f"let count = 0;\nfor (let i = {low}; i < {outer}; i++) {{\n"
            f"  for (let j = 0; j < {inner}; j++) {{\n    count += {body};\n  }}\n}}\n"
            "console.log(count);"
        ),
        bash=(
            f"count=0\nfor ((i = {low}; i < {outer}; i++)); do\n"
            f"  for ((j = 0; j < {inner}; j++)); do\n    count=$((count + {body}))\n  done\ndone\n"
            "echo $count"
        ),
    )


def euclid(chance: Chance) -> Sketch:
    """Euclid's algorithm."""
    shared = chance.whole(2, 15)
    a, b = shared * chance.whole(3, 19), shared * chance.whole(2, 12)
    facts = (
        "a while loop replaces a and b by b and the remainder of a and b",
        f"the variables start at {a} and {b}",
    )
    return sketch(
        "while loop",
        chance.pick(("euclid", "remainder", "divisor")),
        facts,
        f"a, b = {a}, {b}\nwhile b != 0:\n    a, b = b, a % b\nprint(a)",
        javascript=(
            f"let [a, b] = [{a}, {b}];\nwhile (b !== 0) {{\n  [a, b] = [b, a % b];\n}}\n"
            "console.log(a);"
        ),
        perl=(
            f"my ($a, $b) = ({a}, {b});\nwhile ($b != 0) {{\n    ($a, $b) = ($b, $a % $b);\n}}\n"
            "print $a;"
        ),
        ruby=f"a, b = {a}, {b}\nwhile b != 0\n  a, b = b, a % b\nend\nputs a",
    )


def grades(chance: Chance) -> Sketch:
    """A chain of conditions that names a number."""
    low, high = chance.whole(20, 45), chance.whole(55, 80)
    value = chance.whole(5, 99)
    words = chance.pick((("low", "middle", "high"), ("cold", "mild", "hot"), ("C", "B", "A")))
    name = chance.pick(("score", "level", "points", "value"))
    facts = (
        "an if, elif and else chain chooses between three words",
        f"the variable {name} is {value}",
        f"the borders are {low} and {high}",
    )
    return sketch(
        "conditions",
        chance.pick(("grade", "classify", "levels")),
        facts,
        (
            f'{name} = {value}\nif {name} < {low}:\n    label = "{words[0]}"\n'
            f'elif {name} <= {high}:\n    label = "{words[1]}"\nelse:\n    label = "{words[2]}"\n'
            f"print(label, {name} - {low})"
        ),
    )


# All families of programs, and draws from them.

FAMILIES: tuple[Family, ...] = (
    range_sum,
    count_if,
    while_halving,
    while_growth,
    recursive_sum,
    recursive_pair,
    nested_loops,
    euclid,
    grades,
    slices,
    word_slice,
    comprehension,
    vowels,
    dictionary_sum,
    dictionary_count,
    list_changes,
    join_words,
    best_index,
)
_OTHER_LANGUAGES = ("javascript", "perl", "ruby", "bash")


def draw_program(chance: Chance, languages: Collection[str]) -> Program:
    """A program of any family: in about half of the draws in another language than Python.

    Where that language is not among `languages`, or the family does not know it, it is in Python:
    so what is drawn in Python on a machine with few interpreters is the same on one with many.
    """
    sketched = chance.pick(FAMILIES)(chance)
    wanted = chance.pick(_OTHER_LANGUAGES) if chance.happens(0.6) else "python"
    return sketched.program(wanted if wanted in languages else "python")
