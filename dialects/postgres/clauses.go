package postgres

import (
	"slices"

	"github.com/sqlc-dev/oliphant/ast"

	"github.com/fencedsql/fencedsql/dialects"
)

// places finds where the clauses of one write stand. The tree says which
// clauses there are and what is in them; places looks for their borders among
// the tokens outside of brackets, and checks each against what the tree tells
// of it: how many, and where each begins. Where the two do not agree the
// places are lost, and the write is refused.
type places struct {
	text string
	toks []token
	lost bool
	// ref is what qualifies the target's columns, as the engine reads it.
	ref string
}

// kind of the token at i; there are others on either side of the text.
func (p *places) kind(i int) kind {
	if i < 0 || i >= len(p.toks) {
		return other
	}
	return p.toks[i].kind
}

// at is the token that begins at an offset that the tree names.
func (p *places) at(offset int32) int {
	i, ok := p.lookup(offset)
	p.must(ok)
	return i
}

func (p *places) lookup(offset int32) (int, bool) {
	return slices.BinarySearchFunc(p.toks, offset, func(t token, o int32) int { return int(t.start - o) })
}

func (p *places) must(ok bool) { p.lost = p.lost || !ok }

// expect steps over a token of the kind.
func (p *places) expect(i int, k kind) int {
	p.must(p.kind(i) == k)
	return i + 1
}

// skip steps over a token, and over all of a bracket.
func (p *places) skip(i int) int {
	if k := p.kind(i); k == lparen || k == lbracket {
		return int(p.toks[i].mate) + 1
	}
	return i + 1
}

// brackets steps over a parenthesized list.
func (p *places) brackets(i int) int {
	p.must(p.kind(i) == lparen)
	return p.skip(i)
}

// name steps over an identifier: one token, or three with UESCAPE.
func (p *places) name(i int) int {
	if p.kind(i) == uword && p.kind(i+1) == kwUescape {
		return i + 3
	}
	return i + 1
}

// qualified gives the tokens of a qualified name that begins at i.
func (p *places) qualified(i int) (lo, hi int) {
	for hi = p.name(i); p.kind(hi) == dot; {
		hi = p.name(hi + 1)
	}
	return i, hi
}

// end is where the token before i ends: what is put there follows it.
func (p *places) end(i int) int {
	if i < 1 || i > len(p.toks) {
		p.lost = true
		return 0
	}
	return int(p.toks[i-1].end)
}

// span covers the tokens from i up to j.
func (p *places) span(i, j int) dialects.Span {
	if i < 0 || i >= j || j > len(p.toks) {
		p.lost = true
		return dialects.Span{}
	}
	return dialects.Span{Start: int(p.toks[i].start), End: int(p.toks[j-1].end)}
}

// isName reports whether the word at i is a name although it may be spelled
// like a keyword: behind a dot or AS every word is one.
func (p *places) isName(i int) bool {
	k := p.kind(i - 1)
	return k == dot || k == kwAs && !p.isName(i-1)
}

// find returns the first of the keywords that begins a clause, or hi. It looks
// outside of brackets only.
func (p *places) find(i, hi int, kinds ...kind) int {
	for ; i < hi; i = p.skip(i) {
		if slices.Contains(kinds, p.kind(i)) && p.beginsClause(i) {
			return i
		}
	}
	return hi
}

func (p *places) beginsClause(i int) bool {
	if p.isName(i) {
		return false
	}
	switch p.kind(i) {
	case kwFrom: // IS [NOT] DISTINCT FROM
		before := i - 2
		if p.kind(before) == kwNot {
			before--
		}
		return p.kind(i-1) != kwDistinct || p.kind(before) != kwIs
	case kwFor, kwGroup: // COLLATION FOR (…), WITHIN GROUP (…)
		return p.kind(i+1) != lparen
	}
	return true
}

// item is a part of a list: the tokens from lo up to hi.
type item struct{ lo, hi int }

// list splits tokens at the commas outside of brackets. It appends to items.
func (p *places) list(items []item, lo, hi int) []item {
	if lo >= hi {
		return items
	}
	for i := lo; i < hi; i = p.skip(i) {
		if p.kind(i) == comma {
			items = append(items, item{lo, i})
			lo = i + 1
		}
	}
	return append(items, item{lo, hi})
}

// targets are the borders of a list whose elements the tree has as targets,
// each with the place where it begins.
func (p *places) targets(list []*ast.Node, lo, hi int) []dialects.Span {
	var room [16]item
	items := p.list(slices.Grow(room[:0], len(list)), lo, hi)
	p.must(len(items) == len(list))
	if p.lost {
		return nil
	}
	spans := make([]dialects.Span, len(items))
	for i, it := range items {
		spans[i] = p.span(it.lo, it.hi)
		p.must(spans[i].Start == int(list[i].GetResTarget().GetLocation()))
	}
	return spans
}

// assignments are the elements of a SET list.
func (p *places) assignments(list []*ast.Node, lo, hi int) []dialects.Assignment {
	var room [16]item
	items := p.list(slices.Grow(room[:0], len(list)), lo, hi)
	set := make([]dialects.Assignment, 0, len(items))
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.GetResTarget().GetName()
	}
	for _, it := range items {
		a := dialects.Assignment{Span: p.span(it.lo, it.hi)}
		first, n := it.lo, 1
		if p.kind(it.lo) == lparen { // (a, b) = …
			first++
			if len(list) > 0 {
				n = int(list[0].GetResTarget().GetVal().GetMultiAssignRef().GetNcolumns())
			}
		}
		if p.must(0 < n && n <= len(list)); p.lost {
			return nil
		}
		p.must(p.at(list[0].GetResTarget().GetLocation()) == first)
		a.Columns = names[:n:n]
		list, names = list[n:], names[n:]
		i := it.lo
		for i < it.hi && p.kind(i) != equals {
			i = p.skip(i)
		}
		a.Value = p.span(i+1, it.hi)
		set = append(set, a)
	}
	p.must(len(list) == 0)
	return set
}

// returning reads a RETURNING clause and returns the token it begins with, or
// hi, where it would begin.
func (p *places) returning(w *dialects.Write, clause *ast.ReturningClause, hi int) int {
	w.ReturningAt = p.end(hi)
	if clause == nil {
		return hi
	}
	first := p.at(clause.Exprs[0].GetResTarget().GetLocation())
	w.Returning = p.targets(clause.Exprs, first, hi)
	i := first - 1
	if p.kind(i) == rparen { // WITH (OLD AS …)
		i = int(p.toks[i].mate) - 2
	}
	p.must(p.kind(i) == kwReturning)
	return i
}

// with steps over a WITH clause.
func (p *places) with(i int) int {
	i = p.expect(i, kwWith)
	if p.kind(i) == kwRecursive {
		i++
	}
	names := func(i int) int {
		for i = p.name(i); p.kind(i) == comma; i = p.name(i + 1) {
		}
		return i
	}
	for {
		i = p.name(i)
		if p.kind(i) == lparen {
			i = p.skip(i)
		}
		i = p.expect(i, kwAs)
		for p.kind(i) == kwNot || p.kind(i) == word { // [NOT] MATERIALIZED
			i++
		}
		i = p.brackets(i)
		if p.kind(i) == kwSearch { // SEARCH DEPTH FIRST BY … SET name
			i = p.name(p.expect(names(i+4), kwSet))
		}
		if p.kind(i) == kwCycle { // CYCLE … SET name [TO … DEFAULT …] USING name
			i = p.name(p.expect(names(i+1), kwSet))
			i = p.name(p.expect(p.find(i, len(p.toks), kwUsing), kwUsing))
		}
		if p.lost || p.kind(i) != comma {
			return i
		}
		i++
	}
}

// rows are the rows that the query of an INSERT gives: those of VALUES and the
// select lists of all arms of a set operation. reason is set when an arm has
// no place for another column.
func (p *places) rows(query *ast.SelectStmt, lo, hi int) (rows []dialects.Row, reason string) {
	arms := leaves(query)
	p.arms(lo, hi, func(i, hi int) {
		if len(arms) == 0 {
			p.lost = true
			return
		}
		arm := arms[0]
		arms = arms[1:]
		switch p.kind(i) {
		case kwTable:
			reason = "TABLE gives its columns without naming them"
		case kwValues:
			rows = p.values(rows, arm.ValuesLists, i+1, hi, !isValues(query))
		default:
			p.must(p.kind(i) == kwSelect && len(arm.ValuesLists) == 0)
			if len(arm.TargetList) == 0 {
				reason = "a select list is empty"
				return
			}
			rows = append(rows, p.selectList(arm.TargetList, hi))
		}
	})
	p.must(len(arms) == 0)
	return rows, reason
}

// isValues reports whether a query is nothing but VALUES, and so is not read as
// a query where an INSERT has it: transformInsertStmt in PostgreSQL's
// src/backend/parser/analyze.c.
func isValues(query *ast.SelectStmt) bool {
	return len(query.ValuesLists) > 0 && len(query.SortClause) == 0 && query.LimitOffset == nil && query.LimitCount == nil &&
		len(query.LockingClause) == 0 && query.WithClause == nil
}

// leaves are the arms of a set operation, in the order of the text.
func leaves(query *ast.SelectStmt) []*ast.SelectStmt {
	var arms []*ast.SelectStmt
	for rest := []*ast.SelectStmt{query}; len(rest) > 0; {
		s := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		if s.GetLarg() != nil {
			rest = append(rest, s.GetRarg(), s.GetLarg())
			continue
		}
		arms = append(arms, s)
	}
	return arms
}

// arms calls arm for each SELECT, VALUES and TABLE that a select statement is
// made of, with its tokens.
func (p *places) arms(i, hi int, arm func(i, hi int)) {
	if p.kind(i) == kwWith {
		i = p.with(i)
	}
	for i < hi && !p.lost {
		end := i
		if p.kind(i) == lparen {
			end = p.skip(i)
			p.arms(i+1, end-1, arm)
		} else {
			end = p.find(i, hi, kwUnion, kwIntersect, kwExcept, kwOrder, kwLimit, kwOffset, kwFetch, kwFor)
			arm(i, end)
		}
		switch p.kind(end) {
		case kwUnion, kwIntersect, kwExcept:
		default:
			return // ORDER BY and what follows belong to the whole
		}
		if i = end + 1; p.kind(i) == kwAll || p.kind(i) == kwDistinct {
			i++
		}
	}
}

// values reads the rows of VALUES, which is all of an INSERT's query or a part of it.
func (p *places) values(rows []dialects.Row, lists []*ast.Node, lo, hi int, part bool) []dialects.Row {
	var room, inner [16]item
	items := p.list(slices.Grow(room[:0], len(lists)), lo, hi)
	p.must(len(items) == len(lists))
	rows = slices.Grow(rows, len(items))
	for i, it := range items {
		end := p.brackets(it.lo)
		p.must(end == it.hi)
		if p.lost {
			return nil
		}
		values := p.list(inner[:0], it.lo+1, end-1)
		list := lists[i].GetList().GetItems()
		p.must(len(values) == len(list))
		row := dialects.Row{Values: make([]dialects.Span, len(values)), At: p.end(end - 1), Select: part}
		for j, v := range values {
			row.Values[j] = p.span(v.lo, v.hi)
			row.Open = row.Open || j < len(list) && isStar(list[j])
		}
		rows = append(rows, row)
	}
	return rows
}

// selectList reads the list of a SELECT whose tokens end before hi.
func (p *places) selectList(list []*ast.Node, hi int) dialects.Row {
	lo := p.at(list[0].GetResTarget().GetLocation())
	hi = p.find(lo, hi, kwInto, kwFrom, kwWhere, kwGroup, kwHaving, kwWindow)
	row := dialects.Row{Values: p.targets(list, lo, hi), At: p.end(hi), Select: true}
	for _, n := range list {
		row.Open = row.Open || isStar(n.GetResTarget().GetVal())
	}
	return row
}

// isStar reports whether an expression of a list stands for several: t.*, (row).*.
func isStar(n *ast.Node) bool {
	parts := n.GetColumnRef().GetFields()
	if i := n.GetAIndirection(); i != nil {
		parts = i.Indirection
	}
	return len(parts) > 0 && parts[len(parts)-1].GetAStar() != nil
}

// conjuncts splits a condition where AND joins its parts. If tokens and tree
// disagree on the number of parts, it stays in one piece, which pins nothing.
func (p *places) conjuncts(w *dialects.Write, condition *ast.Node, lo, hi int) []dialects.Conjunct {
	var room [8]item
	var nodeRoom [8]*ast.Node
	nodes := conjunctNodes(nodeRoom[:0], condition)
	items := p.split(slices.Grow(room[:0], len(nodes)), lo, hi)
	if len(items) != len(nodes) {
		return []dialects.Conjunct{{Span: p.span(lo, hi)}}
	}
	conjuncts := make([]dialects.Conjunct, len(items))
	for i, it := range items {
		conjuncts[i].Span = p.span(it.lo, it.hi)
		p.pin(&conjuncts[i], w, nodes[i], it)
	}
	return conjuncts
}

// conjunctNodes appends the parts of a condition that AND joins.
func conjunctNodes(nodes []*ast.Node, condition *ast.Node) []*ast.Node {
	var room [8]*ast.Node
	rest := append(room[:0], condition)
	nodes = slices.Grow(nodes, len(condition.GetBoolExpr().GetArgs())) // as flat as they are written
	for len(rest) > 0 {
		n := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		if b := n.GetBoolExpr(); b != nil && b.Boolop == ast.BoolExprType_AND_EXPR {
			for i := len(b.Args) - 1; i >= 0; i-- {
				rest = append(rest, b.Args[i])
			}
			continue
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// split splits tokens at AND, through parentheses too. The AND of BETWEEN and
// those inside CASE … END do not count, and next to an OR none does.
func (p *places) split(items []item, lo, hi int) []item {
	it := p.bare(item{lo, hi})
	lo, hi = it.lo, it.hi
	n, at := len(items), lo
	cases, betweens := 0, 0
	for i := lo; i < hi; i = p.skip(i) {
		switch k := p.kind(i); {
		case p.kind(i-1) == dot:
		case k == kwCase:
			cases++
		case k == kwEnd:
			cases--
		case cases > 0:
		case k == kwBetween && !p.isOperand(i, lo):
			betweens++
		case k == kwAnd && betweens > 0:
			betweens--
		case k == kwAnd:
			items = p.split(items, at, i)
			at = i + 1
		case k == kwOr:
			return append(items[:n], it)
		}
	}
	if at == lo {
		return append(items, it)
	}
	return p.split(items, at, hi)
}

// isOperand reports whether the word at i stands where an expression or its
// operand begins, and so is a name: a column may be called between.
func (p *places) isOperand(i, lo int) bool {
	if p.kind(i-1) == kwNot { // a NOT BETWEEN, or NOT between
		i--
	}
	if i == lo {
		return true
	}
	switch p.kind(i - 1) {
	case kwAnd, kwOr, kwNot, operator, equals, star:
		return true
	}
	return false
}

// bare strips the parentheses that enclose all of an expression. Those of a
// subquery belong to it.
func (p *places) bare(it item) item {
	for p.kind(it.lo) == lparen && int(p.toks[it.lo].mate) == it.hi-1 && it.lo+1 < it.hi-1 {
		switch p.kind(it.lo + 1) {
		case kwSelect, kwValues, kwTable, kwWith:
			return it
		}
		it = item{it.lo + 1, it.hi - 1}
	}
	return it
}

// pin sets the column and parameter of a conjunct that says "column = value".
func (p *places) pin(c *dialects.Conjunct, w *dialects.Write, n *ast.Node, it item) {
	e := n.GetAExpr()
	if e == nil || e.Kind != ast.A_Expr_Kind_AEXPR_OP || len(e.Name) != 1 || e.Name[0].GetString_().GetSval() != "=" {
		return
	}
	i, ok := p.lookup(e.Location)
	// OPERATOR(=) begins with another token.
	if !ok || p.kind(i) != equals || i <= it.lo || i >= it.hi-1 || p.toks[i].up != p.toks[it.lo].up {
		return
	}
	right := item{i + 1, it.hi}
	column, value := e.Lexpr, e.Rexpr
	if column.GetColumnRef() == nil {
		column, value = value, column
		right = item{it.lo, i}
	}
	name := p.targetColumn(w, column.GetColumnRef())
	if name == "" {
		return
	}
	ref, ok := constant(value)
	if !ok {
		return
	}
	if ref != nil {
		at, ok := p.lookup(ref.Location)
		if !ok || at < right.lo || at >= right.hi || p.kind(at) != param {
			return
		}
		c.Param = int(ref.Number)
	}
	c.Column = name
}

// targetColumn is the name of the target's column that a reference means, or "".
func (p *places) targetColumn(w *dialects.Write, ref *ast.ColumnRef) string {
	fields := ref.GetFields()
	var names [3]string
	if len(fields) == 0 || len(fields) > len(names) {
		return ""
	}
	for i, f := range fields {
		if names[i] = f.GetString_().GetSval(); names[i] == "" {
			return ""
		}
	}
	switch len(fields) {
	case 1:
		return names[0]
	case 2:
		if names[0] == p.ref {
			return names[1]
		}
	case 3: // an alias hides the table's name
		if names[0] == w.Target.Schema && names[1] == w.Target.Table && p.ref == w.Target.Table {
			return names[2]
		}
	}
	return ""
}

// constant reports whether an expression is one and the same value for every
// row, and compares with a column so that at most one value of it matches: a
// literal, or a parameter, which is returned. A cast may make the engine
// compare after a conversion of the column that is not one to one (bigint to
// double precision, timestamp to timestamptz, varchar to char): only casts to
// types for which no such conversion exists count.
func constant(n *ast.Node) (*ast.ParamRef, bool) {
	for {
		switch e := n.GetNode().(type) {
		case *ast.Node_AConst:
			return nil, !e.AConst.Isnull // which transform_null_equals lets mean many
		case *ast.Node_ParamRef:
			return e.ParamRef, true
		case *ast.Node_TypeCast:
			t := e.TypeCast.TypeName
			names := t.GetNames()
			if len(names) == 2 && names[0].GetString_().GetSval() == "pg_catalog" {
				names = names[1:]
			}
			if len(names) != 1 || t.Setof || t.PctType || len(t.ArrayBounds) > 0 {
				return nil, false
			}
			switch names[0].GetString_().GetSval() {
			case "int2", "int4", "int8", "numeric", "text", "varchar", "uuid", "bool", "bytea", "date", "timestamp":
			default:
				return nil, false
			}
			n = e.TypeCast.Arg
		default:
			return nil, false
		}
	}
}
