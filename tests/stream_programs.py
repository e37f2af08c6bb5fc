"""Programs for streams of changes that random programs seldom amount to: each is a way in which maintenance can go wrong."""

from __future__ import annotations

PROGRAMS: dict[str, str] = {
    "closure": """
.decl edge(x: number, y: number)
.decl closure(x: number, y: number)
closure(x, y) :- edge(x, y).
closure(x, y) :- edge(x, z), closure(z, y).""",
    "nonlinear recursion": """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
.decl size(x: number, n: number)
size(x, n) :- edge(x, _), n = count : { path(x, _) }.""",
    "three occurrences in a recursion": """
.decl edge(x: number, y: number)
.decl far(x: number, y: number)
far(x, y) :- edge(x, y).
far(x, w) :- far(x, y), far(y, z), far(z, w).""",
    "same generation": """
.decl parent(child: number, parent: number)
.decl same(x: number, y: number)
same(x, y) :- parent(x, p), parent(y, p).
same(x, y) :- parent(x, p), same(p, q), parent(y, q).""",
    "mutual recursion of three": """
.decl step(x: number, y: number)
.decl start(x: number)
.decl zero, one, two(x: number)
zero(x) :- start(x).
one(y) :- zero(x), step(x, y).
two(y) :- one(x), step(x, y).
zero(y) :- two(x), step(x, y).
zero(y) :- one(x), two(x), step(x, y).
.decl never(x: number)
never(x) :- step(x, _), !zero(x), !one(x), !two(x).""",
    "recursion that reads a relation twice": """
.decl edge(x: number, y: number)
.decl even(x: number, y: number)
even(x, z) :- edge(x, y), edge(y, z).
even(x, w) :- even(x, y), edge(y, z), edge(z, w).""",
    "recursion with a negation that changes below": """
.decl edge(x: number, y: number)
.decl closed(x: number)
.decl open(x: number, y: number)
open(x, y) :- edge(x, y), !closed(y).
open(x, z) :- open(x, y), edge(y, z), !closed(z), !closed(y).""",
    "recursion with the same relation plain and negated": """
.decl edge(x: number, y: number)
.decl oneway(x: number, y: number)
oneway(x, y) :- edge(x, y), !edge(y, x).
oneway(x, z) :- oneway(x, y), edge(y, z), !edge(z, y).""",
    "recursion over recursion": """
.decl edge(x: number, y: number)
.decl reach(x: number, y: number)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.decl knot(x: number)
knot(x) :- reach(x, x).
.decl tied(x: number)
tied(x) :- knot(x).
tied(y) :- tied(x), reach(x, y), !knot(y).
.decl knots(n: number)
knots(n) :- n = count : { tied(x) }.""",
    "recursion with arithmetic": """
.decl edge(x: number, y: number)
.decl start(x: number)
.decl walk(x: number, n: number)
walk(x, 0) :- start(x).
walk(y, n + 1) :- walk(x, n), edge(x, y), n < 5.
.decl distance(x: number, n: number)
distance(x, n) :- n = min m : { walk(x, m) }.
.decl furthest(n: number)
furthest(n) :- n = max m : { distance(_, m) }.""",
    "numbers that follow from each other": """
.decl seed(x: number)
.decl stop(x: number)
.decl run(x: number)
run(x) :- seed(x).
run(x + 1) :- run(x), x < 12, !stop(x).
run(x - 2) :- run(x), x > 3, !stop(x).
run(x / 2) :- run(x), x % 2 = 0.""",
    "points to": """
.decl new(v: number, o: number)
.decl assign(v: number, w: number)
.decl store(v: number, w: number)
.decl fetch(v: number, w: number)
.decl points(v: number, o: number)
.decl heap(o: number, p: number)
points(v, o) :- new(v, o).
points(v, o) :- assign(v, w), points(w, o).
heap(o, p) :- store(v, w), points(v, o), points(w, p).
points(v, p) :- fetch(v, w), points(w, o), heap(o, p).""",
    "self-joins": """
.decl e(x: number, y: number)
.decl triangle(x: number, y: number, z: number)
triangle(x, y, z) :- e(x, y), e(y, z), e(z, x).
.decl both(x: number, y: number)
both(x, y) :- e(x, y), e(y, x).
.decl loop(x: number)
loop(x) :- e(x, x).
.decl single(x: number)
single(x) :- e(x, y), !e(y, _).
.decl lone(x: number, y: number)
lone(x, y) :- e(x, y), !e(y, x), !e(x, x).
.decl fork(x: number, n: number)
fork(x, n) :- e(x, _), n = count : { e(x, y), e(x, z), y < z }.""",
    "several strata of negation": """
.decl a(x: number, y: number)
.decl b(x: number)
.decl p, q, r, s(x: number)
p(x) :- a(x, _), !b(x).
q(x) :- b(x), !p(x), !a(_, x).
r(x) :- a(_, x), !q(x), !p(x).
s(x) :- b(x), !r(x).
s(x) :- p(x), !a(x, x).
.decl none()
none() :- !a(_, _), !b(_).
.decl some()
some() :- s(_), !none().""",
    "groups that are emptied": """
.decl sale(shop: number, item: number, price: decimal(18,2)?)
.decl total(shop: number, sum: decimal(18,2))
total(s, t) :- t = sum p : { sale(s, _, p) }.
.decl average(shop: number, mean: float)
average(s, m) :- m = mean p : { sale(s, _, p) }.
.decl pieces(shop: number, n: number)
pieces(s, n) :- n = count : { sale(s, _, _) }.
.decl cheapest(shop: number, p: decimal(18,2))
cheapest(s, m) :- m = min p : { sale(s, _, p) }.
.decl dearest(p: decimal(18,2))
dearest(m) :- m = max p : { sale(_, _, p) }.
.decl all(n: number)
all(n) :- n = count : { sale(_, _, _) }.
.decl worth(p: decimal(18,2))
worth(t) :- t = sum p : { sale(_, _, p) }.
.decl rich(shop: number)
rich(s) :- total(s, t), worth(w), t + t > w.""",
    "float sums that would drift": """
.decl m(g: number, i: number, x: float?)
.decl t(g: number, x: float)
t(g, s) :- s = sum x * 10000000000000000.0 + x / 3.0 : { m(g, _, x) }.
.decl a(x: float)
a(s) :- s = sum x / 10.0 : { m(_, _, x) }.
.decl e(g: number, x: float)
e(g, s) :- s = mean x / 7.0 : { m(g, _, x) }.
.decl zero(g: number)
zero(g) :- t(g, 0.0).""",
    "aggregates over recursive views": """
.decl edge(x: number, y: number)
.decl weight(x: number, w: number)
.decl reach(x: number, y: number)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), reach(y, z).
.decl below(x: number, w: number)
below(x, s) :- s = sum w : { reach(x, y), weight(y, w) }.
.decl heaviest(x: number, w: number)
heaviest(x, m) :- m = max w : { reach(x, y), weight(y, w) }.
.decl top(x: number)
top(x) :- heaviest(x, w), weight(x, v), v >= w, !reach(x, x).""",
    "no columns": """
.decl on()
.decl off()
.decl a(x: number)
.decl lit()
lit() :- on(), !off().
.decl ticks()
ticks() :- lit(), a(x), x > 2.
ticks() :- ticks(), off().
.decl shown(x: number)
shown(x) :- a(x), ticks().
shown(x) :- a(x), !lit(), !ticks().
.decl n(n: number)
n(n) :- n = count : { a(_), lit() }.""",
    "NULL": """
.decl r(x: number?, y: number?)
.decl s(x: number?)
.decl j(x: number?, y: number?)
j(x, z) :- r(x, y), r(y, z).
.decl k(x: number?)
k(x) :- r(x, _), !s(x).
.decl l(x: number?)
l(x) :- s(x), r(_, y), is_null(y).
.decl c(x: number?, n: number)
c(x, n) :- n = count : { r(x, _) }.
.decl m(x: number?, n: number)
m(x, n) :- n = min y : { r(x, y) }.
.decl t(x: number?, n: number)
t(x, n) :- n = sum y : { r(x, y) }.
.decl w(x: number?)
w(x) :- s(x).
w(y) :- w(x), r(x, y).
.decl o(x: number)
o(coalesce(x, -9)) :- w(x).""",
    "a rule with many ways": """
.decl r(x: number, y: number)
.decl p(x: number)
p(x) :- r(x, _).
p(x) :- r(_, x).
p(x) :- r(x, y), r(y, _).
p(1) :- r(_, _).
.decl n(n: number)
n(count : { p(_) }) :- true.
.decl q(x: number, y: number)
q(x, y) :- p(x), p(y), !r(x, y).""",
    "failures on the way": """
.decl r(x: number, y: number)
.decl d(x: number)
.decl q(x: number, z: number)
q(x, a / y) :- r(x, y), d(a), d(b), b != 0.
.decl big(g: number, z: number)
big(g, s) :- s = sum x * 4611686018427387903 : { r(g, x) }.""",
    "keys": """
.decl user(id: number, name: symbol, boss: number?) key(id)
.decl price(item: number?, shop: symbol, cents: number) key(shop, item)
.decl chief(id: number, boss: number)
chief(x, b) :- user(x, _, b), !is_null(b).
chief(x, c) :- chief(x, b), user(b, _, c), !is_null(c).
.decl cheapest(item: number?, cents: number)
cheapest(i, c) :- c = min p : { price(i, _, p) }.
.decl names(name: symbol, n: number)
names(s, n) :- n = count : { user(_, s, _) }.""",
    "only a key": """
.decl k(x: number) key(x)
.decl l(x: number?, y: number) key(y)
.decl m(x: number?, y: number)
m(x, y) :- l(x, y), !k(y).""",
    "names that statements use themselves": """
.decl r(n: number, m: number, x: number, hi: number)
.decl counted(n: number, v: number)
counted(n, v) :- v = count : { r(n, _, _, _) }.
.decl total(m: number, x: number, t: number)
total(m, x, t) :- t = sum hi : { r(_, m, x, hi) }.
.decl middle(hi: number, lo: float)
middle(hi, l) :- l = mean n : { r(n, _, _, hi) }.
.decl least(v: number, n: number)
least(v, t) :- t = min n : { r(n, v, _, _) }.
.decl walk(r: number, old: number, new: number)
walk(a, b, 0) :- r(a, b, _, _).
walk(a, c, new + 1) :- walk(a, b, new), r(b, c, _, _), new < 3.
.decl present(present: number, rowid: number)
present(h, d) :- r(h, d, b, _), !r(_, b, _, h).
present(h, c) :- present(h, d), present(d, c).
.decl g(s: number, t0: number, d: float)
g(s, q, d) :- d = sum to_float(n) / 3.0 : { r(n, s, q, _) }.""",
    "aggregates of what the rule reads itself": """
.decl r(x: number, y: number)
.decl maybe(x: number?, y: number?)
.decl size(x: number, n: number, total: number, most: number)
size(x, n, t, m) :- r(x, _), n = count : { r(x, _) }, t = sum y : { r(x, y) }, m = max y : { r(x, y) }.
.decl single(x: number)
single(x) :- r(x, y), 1 = count : { r(x, _) }, y > 0.
.decl known(x: number?, n: number, total: number?)
known(x, n, t) :- maybe(x, _), n = count : { maybe(x, _) }, t = sum y : { maybe(x, y) }.
.decl threes(x: number, n: number)
threes(x, n) :- r(x, 3), n = count : { r(x, 3) }.
.decl pairs(x: number, n: number)
pairs(x, n) :- r(x, x), n = count : { r(x, _) }.""",
    "windows": """
.decl s(p: symbol, x: number?, y: number)
.decl ranks(p: symbol, x: number?, y: number, r: number, d: number, n: number, s: float, c: float, t: number)
ranks(p, x, y, r, d, n, s, c, t) :- r = rank : { s(p, x, y) } over (p; x desc), d = dense_rank : { s(p, x, y) } over (p; x desc nulls first), n = row_number : { s(p, x, y) } over (p; x desc), s = percent_rank : { s(p, x, y) } over (p; x), c = cume_dist : { s(p, x, y) } over (p; x nulls last), t = ntile 3 : { s(p, x, y) } over (p; y).
.decl near(p: symbol, x: number?, y: number, l: number?, m: number?, n: number?, f: number?, e: number?, o: number?)
near(p, x, y, l, m, n, f, e, o) :- l = lag x : { s(p, x, y) } over (p; x), m = lead x 2 : { s(p, x, y) } over (p; x nulls last), n = nth_value y 2 : { s(p, x, y) } over (p; x), f = first_value y : { s(p, x, y) } over (p; x; range 0 unbounded), e = last_value y : { s(p, x, y) } over (p; x), o = first_value x : { s(p, x, y) } over (p; y; rows -1 1).
.decl sums(p: symbol, x: number?, y: number, a: number?, b: number?, c: number, d: number?, e: float?, g: number)
sums(p, x, y, a, b, c, d, e, g) :- a = sum y : { s(p, x, y) } over (p; x), b = max x : { s(p, x, y) } over (p; y; rows -2 -1), c = count x : { s(p, x, y) } over (p), d = min y : { s(p, x, y) } over (p; x desc; range -2 2), e = mean x : { s(p, x, y) } over (p; y; range unbounded 1), g = count : { s(p, x, y) } over (p; y; rows 0 2).
.decl shown(r: number, y: number)
shown(r + 1, y) :- r = rank : { s(p, x, y) } over (p; x).
.decl twice(p: symbol, r: number)
twice(p, r) :- r = rank : { s(p, x, y) } over (p; x).
twice(p, y) :- s(p, _, y).""",
    "the first rows": """
.decl s(p: number?, x: number?, y: symbol)
.decl top(p: number?, x: number?, y: symbol, r: number)
top(p, x, y, r) :- r = row_number : { s(p, x, y) } over (p; x desc; 2).
.decl best(y: symbol)
best(y) :- r = row_number : { s(p, x, y) } over (p; x nulls last, y desc; 1).
.decl first(x: number?, y: symbol)
first(x, y) :- r = row_number : { s(p, x, y) } over (; y, x desc nulls first; 3).
.decl ranked(p: number?, r: number, q: number)
ranked(p, r, q) :- r = row_number : { s(p, x, y) } over (p; x; 2), q = rank : { s(p, x, y) } over (p; x desc).
.decl tops(p: number?, n: number)
tops(p, n) :- n = count : { top(p, _, _, _) }.
.decl over(rank: number)
over(rank) :- rank = row_number : { top(p, x, y, r) } over (; r).""",
    "windows of floats and decimals": """
.decl m(g: number, x: float?, d: decimal(18,2)?, i: number)
.decl t(g: number, x: float?, d: decimal(18,2)?, i: number, a: float?, b: float?, c: decimal(18,2)?, e: float?, f: decimal(18,2)?)
t(g, x, d, i, a, b, c, e, f) :- a = sum x : { m(g, x, d, i) } over (g; i; rows -2 0), b = mean x : { m(g, x, d, i) } over (g; i), c = sum d : { m(g, x, d, i) } over (g; x; rows unbounded 0), e = mean d : { m(g, x, d, i) } over (g), f = max d : { m(g, x, d, i) } over (g; d; range -1 1).
.decl all(x: float?, i: number, a: float?, n: number)
all(x, i, a, n) :- a = sum x : { m(g, x, d, i) } over (), n = count : { m(g, x, d, i) } over (; i; range -1 0).
.decl before(g: number, i: number, a: float?, b: float?, c: float?)
before(g, i, a, b, c) :- a = sum x : { m(g, x, d, i) } over (g; i; rows -2 -1), b = mean x : { m(g, x, d, i) } over (g; i; range 1 unbounded), c = first_value x : { m(g, x, d, i) } over (g; i; range -2 -1).""",
    "windows over views": """
.decl edge(x: number, y: number)
.decl reach(x: number, y: number)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.decl size(x: number, n: number)
size(x, n) :- n = count : { reach(x, _) }.
.decl largest(x: number, n: number, r: number)
largest(x, n, r) :- r = row_number : { size(x, n) } over (; n desc; 3).
.decl next(x: number, y: number, z: number?)
next(x, y, z) :- z = lead y : { reach(x, y) } over (x; y).
.decl far(x: number)
far(x) :- largest(x, _, 1), !next(x, x, _).""",
    "several aggregates of the same rows": """
.decl pay(who: symbol, x: number?, f: float?, d: decimal(18,2))
.decl who(w: symbol)
.decl all(n: number, x: number, f: float)
all(n, x, f) :- n = count : { pay(_, _, _, _) }, x = sum a : { pay(_, a, _, _) }, f = sum b : { pay(_, _, b, _) }.
.decl each(w: symbol, n: number, x: number, d: decimal(18,2))
each(w, n, x, d) :- who(w), n = count : { pay(w, _, _, _) }, x = sum a * 2 : { pay(w, a, _, _) }, d = sum c : { pay(w, _, _, c) }.
.decl means(w: symbol, x: float, f: float, d: float)
means(w, x, f, d) :- pay(w, _, _, _), x = mean a : { pay(w, a, _, _) }, f = mean b : { pay(w, _, b, _) }, d = mean c : { pay(w, _, _, c) }.
.decl some(w: symbol, n: number, x: number)
some(w, n, x) :- who(w), n = count : { pay(w, a, _, _), a > 2 }, x = sum b + 1 : { pay(w, b, _, _), b > 2 }, n < 9.""",
    "minima and maxima beside totals of the same rows": """
.decl sale(shop: number, item: symbol, price: number, f: float)
.decl summary(shop: number, dearest: number, n: number, first: symbol, total: number, low: float, mean: float)
summary(s, d, n, i, t, l, m) :- sale(s, _, _, _), n = count : { sale(s, _, _, _) }, d = max p : { sale(s, _, p, _) }, i = min x : { sale(s, x, _, _) }, t = sum p : { sale(s, _, p, _) }, l = min f : { sale(s, _, _, f) }, m = mean f : { sale(s, _, _, f) }.
.decl turned(dearest: number, shop: number, n: number)
turned(d, s, n) :- sale(s, _, _, _), n = count : { sale(s, _, _, _) }, d = max p : { sale(s, _, p, _) }.
.decl spread(shop: number, low: number, high: number)
spread(s, l, h) :- l = min p : { sale(s, i, p, f) }, h = max p : { sale(s, i, p, f) }.
.decl wide(shop: number, n: number)
wide(s, n) :- spread(s, l, h), h - l > 1, summary(s, h, n, _, _, _, _), !turned(h, s, 1).
.decl all(n: number, last: symbol)
all(n, l) :- n = count : { sale(s, i, p, f) }, l = max i : { sale(s, i, p, f) }.
.decl pair(item: symbol, shop: number, n: number, high: number)
pair(i, s, n, h) :- n = count : { sale(s, i, p, f) }, h = max p : { sale(s, i, p, f) }.""",
    "minima and maxima of values that may be NULL, beside totals": """
.decl r(g: number?, x: number?, t: symbol?)
.decl both(g: number?, n: number, high: number)
both(g, n, h) :- n = count : { r(g, x, t) }, h = max x : { r(g, x, t) }.
.decl texts(g: number?, n: number, s: number, first: symbol)
texts(g, n, s, f) :- n = count : { r(g, x, t) }, s = sum x : { r(g, x, t) }, f = min t : { r(g, x, t) }.
.decl known(g: number, n: number, low: number)
known(g, n, l) :- r(g, _, _), n = count : { r(g, _, _) }, l = min x : { r(g, x, _) }, g > 0.
.decl all(n: number, low: number, high: symbol)
all(n, l, h) :- n = count : { r(g, x, t) }, l = min x : { r(g, x, t) }, h = max t : { r(g, x, t) }.""",
    # What one view reads another reads, too, at other heights, plain and negated: what is stored of them may be in any order.
    "views upon views": """
.decl edge(x: number, y: number)
.decl node(x: number, weight: number)
.decl closed(x: number)
.decl path(x: number, y: number)
path(x, y) :- edge(x, y), !closed(y).
path(x, z) :- path(x, y), edge(y, z), !closed(z).
.decl apart(x: number, y: number)
apart(x, y) :- node(x, _), node(y, _), !path(x, y).
.decl reached(x: number, n: number)
reached(x, n) :- node(x, _), n = count : { path(x, _) }.
.decl total(sum: number, most: number)
total(s, m) :- s = sum w : { path(_, y), node(y, w) }, m = max n : { reached(_, n) }.
.decl circle(x: number)
circle(x) :- path(x, x).
.decl loud(x: number)
loud(x) :- apart(x, y), reached(y, n), n > 2.
.decl calm(x: number, n: number)
calm(x, n) :- reached(x, n), !circle(x), !loud(x).
.decl before(x: number, y: number)
before(x, y) :- apart(x, y), !apart(y, x).
before(x, z) :- before(x, y), before(y, z), !circle(z).
.decl least(x: number, m: number)
least(x, m) :- node(x, _), m = min w : { before(x, y), node(y, w) }.
.decl rest(x: number)
rest(x) :- node(x, _), !least(x, _), !calm(x, _).
.decl even, odd(x: number)
even(x) :- calm(x, _).
odd(y) :- even(x), edge(x, y).
even(y) :- odd(x), edge(x, y), !rest(y).""",
    "copies of copies": """
.decl one(x: number)
.decl two(x: number)
.decl first(x: number)
first(x) :- one(x).
.decl second(x: number)
second(x) :- first(x).
.decl third(x: number)
third(x) :- second(x).
.decl other(x: number)
other(x) :- two(x).
.decl both(x: number)
both(x) :- other(x), first(x).
.decl copy(x: number)
copy(x) :- other(x).
.decl late(x: number)
late(x) :- third(x), !copy(x).
.decl lone(x: number)
lone(x) :- two(x), !first(x).
.decl sums(s: number, n: number)
sums(s, n) :- s = sum x : { late(x) }, n = count : { both(_) }.""",
    "floats before whole numbers": """
.decl r(f: float, x: number, t: symbol, g: float)
.decl often(f: float, n: number)
often(f, n) :- n = count : { r(f, _, _, _) }.
.decl sums(f: float, s: number, g: float, m: float, n: number)
sums(f, s, g, m, n) :- s = sum x : { r(f, x, t, h) }, g = sum h : { r(f, x, t, h) }, m = mean x : { r(f, x, t, h) }, n = count : { r(f, x, t, h) }.
.decl twice(n: number, s: number)
twice(n, s) :- often(f, n), sums(f, s, _, _, n).
.decl total(s: number, n: number)
total(s, n) :- s = sum n : { often(_, n) }, n = count : { twice(_, _) }.
.decl means(f: float, x: float, high: number)
means(f, x, h) :- x = mean g : { r(f, y, t, g) }, h = max y : { r(f, y, t, g) }.""",
}
