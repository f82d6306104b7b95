"""Families of programs about numbers: loops, conditions, recursion, in several languages."""

from sources.demonstration.chance import Chance
from sources.rendered.program_words import LISTS, TOTALS
from sources.rendered.programs import Sketch, sketch


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
