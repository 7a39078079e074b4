package mysql

import (
	"errors"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/fencedsql/fencedsql/dialects"
)

// A statement is read twice, independently: its tokens say where each clause
// begins and ends, and the parser's tree says what the statement is. Where the
// two differ in a table, a column or a count, the text is not understood.
//
// Only INSERT, UPDATE and DELETE go to the parser, which knows less of what
// MariaDB and MySQL take than it seems: what begins with another word, such as
// SELECT, is told by its first words alone (other.go), so that no query is
// refused for the parser's sake.

// parse reads a text.
func parse(text string, mode dialects.Mode) (script *dialects.Script, err error) {
	defer func() {
		if recover() != nil {
			script, err = nil, errors.New("the parser failed")
		}
	}()
	if i := strings.IndexByte(text, 0); i >= 0 {
		return nil, errorAt("a NUL byte", i)
	}
	s, err := lex(text, mode)
	if err != nil {
		return nil, err
	}
	script = &dialects.Script{Anonymous: true}
	for lo := 0; lo < len(s.toks); {
		hi := s.statementEnd(lo)
		if hi > lo {
			st := dialects.Statement{Span: s.span(lo, hi)}
			if err := s.statement(lo, hi, &st); err != nil {
				return nil, err
			}
			st.Params = s.params(lo, hi)
			script.Statements = append(script.Statements, st)
		}
		lo = hi + 1
	}
	return script, nil
}

// params are the parameter markers among the tokens [lo, hi).
func (s *source) params(lo, hi int) []dialects.Param {
	n := 0
	for i := lo; i < hi; i++ {
		if s.toks[i].kind == marker {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	params := make([]dialects.Param, 0, n)
	for i := lo; i < hi; i++ {
		if s.toks[i].kind == marker {
			params = append(params, dialects.Param{Span: s.toks[i].Span, Index: s.match(i)})
		}
	}
	return params
}

// statementEnd is the index of the semicolon that ends the statement at lo, or
// of the end. The statements inside of a stored program are parts of it.
func (s *source) statementEnd(lo int) int {
	if s.storedProgram(lo) {
		return len(s.toks)
	}
	return s.find(lo, len(s.toks), func(i int) bool { return s.op(i, ";") })
}

// statement reads the statement [lo, hi).
func (s *source) statement(lo, hi int, st *dialects.Statement) error {
	verb, ctes := lo, []string(nil)
	if s.is(lo, "WITH") {
		var ok bool
		if verb, ctes, ok = s.afterWith(lo, hi); !ok {
			return errorAt("a WITH clause that cannot be read", s.toks[lo].Start)
		}
	}
	var err error
	switch {
	case s.is(verb, "INSERT") && verb == lo:
		st.Writes, err = s.insert(lo, hi)
	case s.is(verb, "UPDATE"):
		st.Writes, err = s.update(lo, verb, hi, ctes)
	case s.is(verb, "DELETE"):
		st.Writes, err = s.delete(lo, verb, hi)
	default:
		s.inside(lo, hi, st)
		err = s.other(verb, hi, st)
	}
	if err == errDiffers {
		// When it is no SQL, the parser knows better where.
		if _, err := s.tree(lo, hi, nil); err != nil {
			return err
		}
		return errorAt(errDiffers.Error()+" in the statement", s.toks[lo].Start)
	}
	return err
}

// afterWith skips a WITH clause and gives the names that it defines.
func (s *source) afterWith(i, hi int) (verb int, names []string, ok bool) {
	i++
	if s.is(i, "RECURSIVE") && !s.is(i+1, "AS") {
		i++
	}
	for {
		if i >= hi || !s.named(i) {
			return 0, nil, false
		}
		names = append(names, s.unquote(i))
		i++
		if s.op(i, "(") {
			i = s.next(i)
		}
		if !s.is(i, "AS") || !s.op(i+1, "(") {
			return 0, nil, false
		}
		i = s.next(i + 1)
		if s.is(i, "CYCLE") { // MariaDB
			i = s.find(i, hi, func(i int) bool { return s.is(i, "RESTRICT") }) + 1
		}
		if !s.op(i, ",") {
			return i, names, i < hi
		}
		i++
	}
}

// errDiffers is for a statement that tokens and tree tell differently.
var errDiffers = errors.New("the clauses cannot be told apart")

// path is a name with its qualifiers.
type path struct {
	parts  []string
	lo, hi int
}

func (p path) last() string { return p.parts[len(p.parts)-1] }

// path reads "a", "a.b" or "a.b.c" at token i.
func (s *source) path(i, hi int) (path, bool) {
	p := path{lo: i}
	for {
		if i >= hi || !s.named(i) {
			return p, false
		}
		p.parts = append(p.parts, s.unquote(i))
		i++
		p.hi = i
		if len(p.parts) == 3 || i+1 >= hi || !s.op(i, ".") || !s.named(i+1) {
			return p, true
		}
		i++
	}
}

// tableName reads the name of a table at token i.
func (s *source) tableName(i, hi int) (ref, bool) {
	p, ok := s.path(i, hi)
	if !ok || len(p.parts) > 2 {
		return ref{}, false
	}
	r := ref{lo: p.lo, hi: p.hi, visible: p.last(), written: s.written(p.hi - 1)}
	r.name.Table = p.last()
	if len(p.parts) == 2 {
		r.name.Schema = p.parts[0]
	}
	return r, true
}

// written is how the name that is token i must be written elsewhere: behind a
// dot it may have needed no quotes.
func (s *source) written(i int) string {
	if t := s.of(i); t[0] == '`' || t[0] == '"' {
		return t
	}
	return quote(s.of(i))
}

// ref is a table that takes part in a statement.
type ref struct {
	name    dialects.Name
	lo, hi  int    // the tokens of its name
	alias   string // or ""
	visible string // what qualifies its columns: the alias or the table's name,
	written string // and that as it must be written
	derived bool   // a subquery or a function
	parted  bool   // with a PARTITION clause, outside of which its rows are not meant
	columns [2]int // the names of a subquery's columns, which the parser does not take
}

// columnNames reports whether token i is among the names of a subquery's columns.
func columnNames(refs []ref, i int) bool {
	for _, r := range refs {
		if r.columns[0] <= i && i < r.columns[1] {
			return true
		}
	}
	return false
}

// qualified reports whether a column so qualified may be the table's.
func (r ref) qualified(qualifiers []string) bool {
	switch len(qualifiers) {
	case 0:
		return true
	case 1:
		return fold(qualifiers[0], r.visible)
	}
	return r.alias == "" && fold(qualifiers[1], r.name.Table) && (r.name.Schema == "" || fold(qualifiers[0], r.name.Schema))
}

// write begins a Write of the table.
func (s *source) write(verb dialects.Op, r ref) dialects.Write {
	return dialects.Write{Op: verb, Target: r.name, TargetText: s.span(r.lo, r.hi).Of(s.text), Ref: r.written}
}

// insert reads INSERT
// (https://dev.mysql.com/doc/refman/8.0/en/insert.html, https://mariadb.com/kb/en/insert/).
func (s *source) insert(lo, hi int) ([]dialects.Write, error) {
	i := lo + 1
	for s.is(i, "LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO") {
		i++
	}
	target, ok := s.tableName(i, hi)
	if !ok {
		return nil, errDiffers
	}
	w := s.write(dialects.Insert, target)
	i = target.hi
	if s.is(i, "PARTITION") && s.op(i+1, "(") {
		i = s.next(i + 1)
	}
	w.ColumnsAt = s.toks[i-1].End
	if s.op(i, "(") && !s.queryAt(i+1) {
		w.HasColumns = true
		end := s.match(i)
		items, ok := s.items(i+1, end)
		if !ok {
			return nil, errDiffers
		}
		w.ColumnsAt = s.toks[i].End
		for _, it := range items {
			c, ok := s.path(it[0], it[1])
			if !ok || c.hi != it[1] {
				return nil, errDiffers
			}
			w.Columns = append(w.Columns, c.last())
			w.ColumnsAt = s.toks[it[1]-1].End
		}
		i = end + 1
	}

	body, end := i, hi
	ret := s.find(body, hi, func(i int) bool { return s.returningAt(i, hi) })
	if !s.returning(&w, ret, hi) {
		return nil, errDiffers
	}
	end = ret
	dup := s.find(body, end, func(i int) bool {
		return s.is(i, "ON") && s.is(i+1, "DUPLICATE") && s.is(i+2, "KEY") && s.is(i+3, "UPDATE")
	})
	if dup < end {
		set, ok := s.assignments(dup+4, end)
		if !ok {
			return nil, errDiffers
		}
		w.Upserts = []dialects.Upsert{{Set: list(set), SetAt: s.toks[end-1].End}}
		end = dup
	}

	var set []assignment
	alias := end // of the new row, MySQL 8.0.19
	isValues := s.is(body, "VALUES", "VALUE") && (s.op(body+1, "(") || s.is(body+1, "ROW"))
	switch {
	case s.is(body, "SET"), isValues:
		alias = s.find(body, end, func(i int) bool { return s.is(i, "AS") })
		if alias < end {
			if !s.named(alias+1) || alias+2 < end && !s.op(alias+2, "(") {
				return nil, errDiffers
			}
			if alias+2 < end {
				w.Reason = "the new row's alias lists its columns, among which the fence has none"
				w.Hint = "write AS new without a list, or VALUES(column)"
			}
		}
		if isValues {
			break
		}
		if set, ok = s.assignments(body+1, alias); !ok || w.HasColumns {
			return nil, errDiffers
		}
		w.Set, w.SetAt = list(set), s.toks[alias-1].End
	}
	tableArm := false
	if w.Set == nil {
		if w.Rows, tableArm, ok = s.queryRows(body, alias); !ok {
			return nil, errDiffers
		}
	}

	stmt, err := s.tree(lo, hi, func(i int) bool { return i >= ret || alias <= i && i < end })
	if err != nil {
		return nil, err
	}
	tree, ok := stmt.(*ast.InsertStmt)
	if !ok || tree.IsReplace || !sameRefs([]ref{target}, treeRefs(tree.Table.TableRefs)) || !sameUpserts(tree.OnDuplicate, w.Upserts) ||
		tree.Setlist != (w.Set != nil) {
		return nil, errDiffers
	}
	if tree.Setlist {
		columns := make([]string, len(set))
		for k, a := range set {
			columns[k] = a.column.last()
		}
		if !sameColumns(tree.Columns, columns) {
			return nil, errDiffers
		}
		return []dialects.Write{w}, nil
	}
	arms := []treeArm{{}}
	if tree.Select != nil {
		arms = treeArms(tree.Select)
	}
	for _, r := range tree.Lists {
		arms[0].rows = append(arms[0].rows, len(r))
	}
	if !sameColumns(tree.Columns, w.Columns) || !sameRows(w.Rows, arms) {
		return nil, errDiffers
	}
	switch {
	case w.Reason != "":
	case tableArm:
		w.Reason = "TABLE has no list of columns to which the fence could be added"
		w.Hint = "write SELECT with the columns"
	case len(w.Upserts) > 0 && reads(arms, target):
		w.Reason = "the SELECT reads from a table under the name of the one that is written, so that its stored fence cannot be named"
		w.Hint = "give the table in the SELECT another alias"
	}
	return []dialects.Write{w}, nil
}

// queryAt reports whether what stands behind a parenthesis is a query.
func (s *source) queryAt(i int) bool {
	return s.is(i, "SELECT", "WITH", "VALUES", "TABLE") || s.op(i, "(")
}

// queryRows are the rows of VALUES and the select lists of the query [lo, hi),
// in the order of the text. tableArm is true when one of its parts is a TABLE.
func (s *source) queryRows(lo, hi int) (rows []dialects.Row, tableArm, ok bool) {
	i := lo
	if s.is(i, "WITH") {
		if i, _, ok = s.afterWith(i, hi); !ok {
			return nil, false, false
		}
	}
	for {
		switch {
		case i >= hi:
			return nil, false, false
		case s.op(i, "("):
			inner, table, ok := s.queryRows(i+1, s.match(i))
			if !ok {
				return nil, false, false
			}
			rows = append(rows, inner...)
			tableArm = tableArm || table
			i = s.next(i)
		case s.is(i, "SELECT"):
			i++
			for s.is(i, "ALL", "DISTINCT", "DISTINCTROW", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_SMALL_RESULT",
				"SQL_BIG_RESULT", "SQL_BUFFER_RESULT", "SQL_CACHE", "SQL_NO_CACHE", "SQL_CALC_FOUND_ROWS") {
				i++
			}
			end := s.find(i, hi, func(i int) bool {
				return s.is(i, "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "INTO", "FOR", "LOCK", "PROCEDURE", "FETCH") ||
					s.is(i, "WINDOW") && s.named(i+1) && s.is(i+2, "AS") || s.setOperator(i)
			})
			row, ok := s.row(i, end, 0)
			if !ok || len(row.Values) == 0 {
				return nil, false, false
			}
			row.Select = true
			rows = append(rows, row)
			i = end
		case s.is(i, "VALUES", "VALUE"):
			values := 0
			for {
				i++
				if s.is(i, "ROW") {
					i++
				}
				if i >= hi || !s.op(i, "(") {
					return nil, false, false
				}
				row, ok := s.row(i+1, s.match(i), values)
				if !ok {
					return nil, false, false
				}
				next := s.next(i)
				if values == 0 { // the others will be like the first
					values = len(row.Values)
					rows = slices.Grow(rows, (hi-i)/(next-i+1)+1)
				}
				rows = append(rows, row)
				i = next
				if !s.op(i, ",") {
					break
				}
			}
		case s.is(i, "TABLE"):
			tableArm = true
			rows = append(rows, dialects.Row{Open: true, Select: true, At: s.toks[i].End})
		default:
			return nil, false, false
		}
		if i = s.find(i, hi, s.setOperator); i == hi {
			return rows, tableArm, true
		}
		i++
		if s.is(i, "ALL", "DISTINCT") {
			i++
		}
	}
}

// setOperator reports whether token i joins two queries. Two of the words may
// be names on some servers.
func (s *source) setOperator(i int) bool {
	return s.is(i, "UNION") ||
		s.is(i, "EXCEPT", "INTERSECT") && (s.is(i+1, "ALL", "DISTINCT") || s.queryAt(i+1))
}

// row reads the values [lo, hi) of a row, of which there may be n. Behind lo-1
// stands a parenthesis or SELECT.
func (s *source) row(lo, hi, n int) (dialects.Row, bool) {
	row := dialects.Row{Values: make([]dialects.Span, 0, n), At: s.toks[max(lo, hi)-1].End}
	ok := s.eachItem(lo, hi, func(lo, hi int) {
		row.Values = append(row.Values, s.span(lo, hi))
		row.Open = row.Open || s.op(hi-1, "*") && (hi-1 == lo || s.op(hi-2, "."))
	})
	return row, ok
}

// assignment is an element of a SET list and the column as it is written.
type assignment struct {
	dialects.Assignment
	column path
}

func list(set []assignment) []dialects.Assignment {
	out := make([]dialects.Assignment, len(set))
	for i, a := range set {
		out[i] = a.Assignment
	}
	return out
}

// assignments reads the SET list [lo, hi).
func (s *source) assignments(lo, hi int) ([]assignment, bool) {
	items, ok := s.items(lo, hi)
	if !ok || len(items) == 0 {
		return nil, false
	}
	set := make([]assignment, 0, len(items))
	for _, it := range items {
		c, ok := s.path(it[0], it[1])
		if !ok || !s.op(c.hi, "=") && !s.op(c.hi, ":=") || c.hi+1 >= it[1] {
			return nil, false
		}
		set = append(set, assignment{dialects.Assignment{
			Span: s.span(it[0], it[1]), Columns: []string{c.last()}, Value: s.span(c.hi+1, it[1]),
		}, c})
	}
	return set, true
}

// returningAt reports whether token i begins a RETURNING clause, in a
// statement that ends at hi. The word is reserved in MariaDB, which has the
// clause, and may be a name in MySQL.
func (s *source) returningAt(i, hi int) bool {
	if !s.is(i, "RETURNING") || i+1 >= hi {
		return false
	}
	switch t := s.toks[i-1]; t.kind {
	case word: // one behind which a column may stand, or an alias
		if s.is(i-1, "SELECT", "DISTINCT", "ALL", "AND", "OR", "XOR", "NOT", "WHERE", "BY", "SET", "ON", "HAVING", "IN", "LIKE",
			"REGEXP", "RLIKE", "BETWEEN", "THEN", "ELSE", "WHEN", "CASE", "DIV", "MOD", "INTERVAL", "FROM", "JOIN", "AS", "BINARY") {
			return false
		}
	case op:
		if !s.op(i-1, ")") && !s.op(i-1, "*") {
			return false
		}
	}
	if s.toks[i+1].kind == op {
		return strings.Contains("(*+-!~", s.of(i+1))
	}
	return !s.is(i+1, "FROM", "JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "NATURAL", "STRAIGHT_JOIN", "ON", "WHERE", "GROUP", "ORDER",
		"LIMIT", "UNION", "EXCEPT", "INTERSECT", "HAVING", "SET", "USING", "AS", "AND", "OR", "XOR", "IS", "IN", "LIKE", "BETWEEN",
		"USE", "FORCE", "IGNORE", "PARTITION", "FOR", "LOCK", "WINDOW", "COLLATE", "DIV", "MOD", "ASC", "DESC", "RETURNING")
}

// returning reads the RETURNING clause at token ret, if that is not hi.
func (s *source) returning(w *dialects.Write, ret, hi int) bool {
	w.ReturningAt = s.toks[hi-1].End
	if ret == hi {
		return true
	}
	items, ok := s.items(ret+1, hi)
	for _, it := range items {
		w.Returning = append(w.Returning, s.span(it[0], it[1]))
	}
	return ok
}

// update reads UPDATE, of one table or of several
// (https://dev.mysql.com/doc/refman/8.0/en/update.html, https://mariadb.com/kb/en/update/).
func (s *source) update(lo, verb, hi int, ctes []string) ([]dialects.Write, error) {
	i := verb + 1
	for s.is(i, "LOW_PRIORITY", "IGNORE") {
		i++
	}
	setAt := s.find(i, hi, func(i int) bool { return s.is(i, "SET") })
	refs, ok := s.tableRefs(i, setAt)
	if !ok || setAt == hi || !distinct(refs) {
		return nil, errDiffers
	}
	var w dialects.Write
	c, ok := s.conditions(&w, setAt+1, hi, refs)
	if !ok {
		return nil, errDiffers
	}
	set, ok := s.assignments(setAt+1, c.where)
	if !ok {
		return nil, errDiffers
	}
	if len(refs)*len(set) > maxAssigned {
		return nil, errors.New("too many tables and assignments in one UPDATE")
	}
	w.SetAt = s.toks[c.where-1].End

	stmt, err := s.tree(lo, hi, func(i int) bool {
		// MariaDB takes ORDER BY and LIMIT with several tables, the parser does not.
		return i >= c.returning || len(refs) > 1 && i >= c.tail || columnNames(refs, i)
	})
	if err != nil {
		return nil, err
	}
	tree, ok := stmt.(*ast.UpdateStmt)
	if !ok || !sameRefs(refs, treeRefs(tree.TableRefs.TableRefs)) || len(tree.List) != len(set) ||
		len(refs) == 1 && (tree.Order != nil || tree.Limit != nil) != w.Limited ||
		w.Where.IsZero() != (tree.Where == nil) {
		return nil, errDiffers
	}
	for k, a := range tree.List {
		if !sameName(a.Column.Name.O, set[k].column.last()) {
			return nil, errDiffers
		}
	}

	w.Joined, w.QualifySet = len(refs) > 1, len(refs) > 1
	s.conjuncts(&w, c, refs, tree.Where)
	var writes []dialects.Write
	for _, r := range refs {
		if r.derived || r.name.Schema == "" && isCTE(ctes, r.name.Table) {
			continue
		}
		one := s.write(dialects.Update, r)
		for _, a := range set {
			// A column that names no table may be any table's, as far as the text tells.
			qualifiers := a.column.parts[:len(a.column.parts)-1]
			if len(refs) == 1 || r.qualified(qualifiers) {
				one.Set = append(one.Set, a.Assignment)
			}
		}
		if one.Set != nil {
			one.Ref = s.uniqueRef(refs, r)
			writes = append(writes, clauses(one, w))
		}
	}
	return writes, nil
}

// clauses gives a write the clauses of its statement.
func clauses(w, of dialects.Write) dialects.Write {
	of.Op, of.Target, of.TargetText, of.Ref, of.Set = w.Op, w.Target, w.TargetText, w.Ref, w.Set
	return of
}

func isCTE(ctes []string, table string) bool {
	for _, c := range ctes {
		if fold(c, table) {
			return true
		}
	}
	return false
}

// uniqueRef is what qualifies the table's columns: with the schema where
// tables of one name take part.
func (s *source) uniqueRef(refs []ref, r ref) string {
	for _, other := range refs {
		if other.lo != r.lo && fold(other.visible, r.visible) && r.alias == "" {
			return s.span(r.lo, r.hi).Of(s.text)
		}
	}
	return r.written
}

// ends are the tokens at which the clauses of an UPDATE or DELETE begin, each
// the next one's where the clause is not there: WHERE, ORDER BY or LIMIT,
// RETURNING, the end.
type ends struct{ where, tail, returning, hi int }

// conditions reads the clauses behind a SET list or a DELETE's tables.
func (s *source) conditions(w *dialects.Write, lo, hi int, refs []ref) (ends, bool) {
	c := ends{hi: hi}
	c.returning = s.find(lo, hi, func(i int) bool { return s.returningAt(i, hi) })
	c.tail = s.find(lo, c.returning, func(i int) bool { return s.is(i, "ORDER") && s.is(i+1, "BY") || s.is(i, "LIMIT") })
	c.where = s.find(lo, c.tail, func(i int) bool { return s.is(i, "WHERE") })
	if c.where+1 == c.tail {
		return c, false
	}
	w.Where = s.span(c.where+1, c.tail)
	w.WhereAt = s.toks[c.tail-1].End
	w.Tail = s.span(c.tail, c.returning)
	w.Limited = !w.Tail.IsZero()
	return c, s.returning(w, c.returning, hi)
}

// conjuncts splits the condition by the tokens. Where the tree splits it
// otherwise, it is one part that says nothing. What a part says of a column is
// left out where several tables take part.
func (s *source) conjuncts(w *dialects.Write, c ends, refs []ref, tree ast.ExprNode) {
	if w.Where.IsZero() {
		return
	}
	parts := s.splitAnd(nil, c.where+1, c.tail)
	terms := treeConjuncts(tree, len(parts))
	if len(parts) != len(terms) {
		w.Conjuncts = []dialects.Conjunct{{Span: w.Where}}
		return
	}
	w.Conjuncts = make([]dialects.Conjunct, len(parts))
	for k, p := range parts {
		part := &w.Conjuncts[k]
		part.Span = s.span(p[0], p[1])
		if len(refs) > 1 || refs[0].parted {
			continue
		}
		col, value, ok := s.equality(p[0], p[1])
		treeCol, treeOK := treeEquality(terms[k])
		if ok && treeOK && sameName(treeCol.Name.O, col.last()) && refs[0].qualified(col.parts[:len(col.parts)-1]) {
			part.Column, part.Param = col.last(), s.match(value)
		}
	}
}

// splitAnd splits the condition [lo, hi) at the ANDs of its top level, through
// parentheses too. With an operator that binds less than AND it is one part.
func (s *source) splitAnd(parts [][2]int, lo, hi int) [][2]int {
	add := func(lo, hi int) {
		if lo < hi && s.op(lo, "(") && s.next(lo) == hi && !s.is(lo+1, "SELECT", "WITH", "VALUES", "TABLE") {
			parts = s.splitAnd(parts, lo+1, hi-1)
			return
		}
		parts = append(parts, [2]int{lo, hi})
	}
	n, start, between, cases := len(parts), lo, 0, 0
	for i := lo; i < hi; i = s.next(i) {
		switch {
		case s.is(i, "CASE"):
			cases++
		case s.is(i, "END") && cases > 0:
			cases--
		case cases > 0:
		case s.is(i, "BETWEEN"):
			between++
		case s.is(i, "OR", "XOR"), s.op(i, "||") && s.mode&pipesAsConcat == 0:
			return append(parts[:n], [2]int{lo, hi})
		case s.op(i, ":="): // takes all that follows
			return append(parts, [2]int{start, hi})
		case s.is(i, "AND") && between > 0:
			between--
		case s.is(i, "AND"), s.op(i, "&&"):
			add(start, i)
			start = i + 1
		}
	}
	add(start, hi)
	return parts
}

// equality reads "column = ?" or "? = column", and nothing more. A literal says
// nothing of how many rows are meant: that depends on the column's type, of
// which [keyType] holds an argument's up to it.
func (s *source) equality(lo, hi int) (col path, value int, ok bool) {
	isMarker := func(i int) bool { return s.toks[i].kind == marker }
	if hi-lo < 3 {
		return col, 0, false
	}
	if col, ok = s.path(lo, hi); ok && col.hi == hi-2 && s.op(hi-2, "=") && isMarker(hi-1) {
		return col, hi - 1, true
	}
	if col, ok = s.path(lo+2, hi); ok && col.hi == hi && s.op(lo+1, "=") && isMarker(lo) {
		return col, lo, true
	}
	return col, 0, false
}

// delete reads DELETE, of one table or of several
// (https://dev.mysql.com/doc/refman/8.0/en/delete.html, https://mariadb.com/kb/en/delete/).
func (s *source) delete(lo, verb, hi int) ([]dialects.Write, error) {
	i := verb + 1
	for s.is(i, "LOW_PRIORITY", "QUICK", "IGNORE") {
		i++
	}
	where := s.find(i, hi, func(i int) bool { return s.is(i, "WHERE") })
	using := s.find(i, where, func(i int) bool { return s.is(i, "USING") && !s.op(i+1, "(") })
	from := s.find(i, where, func(i int) bool { return s.is(i, "FROM") })
	if from == where {
		return nil, errDiffers
	}
	// The list of the tables that lose rows, and where the references begin.
	targets, refsAt := [2]int{i, from}, from+1
	switch {
	case from > i: // DELETE a, b FROM …
	case using < where: // DELETE FROM a, b USING …
		targets, refsAt = [2]int{from + 1, using}, using+1
	default: // DELETE FROM a
		targets[0] = from
	}
	refsEnd := s.find(refsAt, hi, func(i int) bool {
		return s.is(i, "WHERE", "LIMIT") || s.is(i, "ORDER") && s.is(i+1, "BY") || s.returningAt(i, hi)
	})
	refs, ok := s.tableRefs(refsAt, refsEnd)
	if !ok || !distinct(refs) {
		return nil, errDiffers
	}
	if from == i+1 && s.is(i, "HISTORY") && !slices.ContainsFunc(refs, func(r ref) bool { return fold(r.visible, "history") }) {
		return nil, errorAt("DELETE HISTORY takes old rows away whatever their fence", s.toks[i].Start)
	}
	w := dialects.Write{From: s.span(refsAt, refsEnd), Joined: len(refs) > 1}
	if verb > lo {
		w.With = dialects.Span{Start: s.toks[lo].Start, End: s.toks[verb].Start}
	}
	c, ok := s.conditions(&w, refsEnd, hi, refs)
	if !ok || c.where != refsEnd {
		return nil, errDiffers
	}
	stmt, err := s.tree(lo, hi, func(i int) bool {
		return i >= c.returning || targets[0] < targets[1] && i >= c.tail || columnNames(refs, i)
	})
	if err != nil {
		return nil, err
	}
	tree, ok := stmt.(*ast.DeleteStmt)
	if !ok || !sameRefs(refs, treeRefs(tree.TableRefs.TableRefs)) || tree.IsMultiTable != (targets[0] < targets[1]) ||
		!tree.IsMultiTable && (tree.Order != nil || tree.Limit != nil) != w.Limited ||
		w.Where.IsZero() != (tree.Where == nil) {
		return nil, errDiffers
	}
	s.conjuncts(&w, c, refs, tree.Where)
	if !tree.IsMultiTable {
		return []dialects.Write{clauses(s.write(dialects.Delete, refs[0]), w)}, nil
	}

	items, ok := s.items(targets[0], targets[1])
	if !ok || len(items) != len(tree.Tables.Tables) || len(items) > maxRefs {
		return nil, errDiffers
	}
	var writes []dialects.Write
	for k, it := range items {
		t, ok := s.tableName(it[0], it[1])
		if ok && s.op(t.hi, ".") && s.op(t.hi+1, "*") { // a.*
			t.hi += 2
		}
		if n := tree.Tables.Tables[k]; !ok || t.hi != it[1] || !sameName(n.Name.O, t.name.Table) || !sameName(n.Schema.O, t.name.Schema) {
			return nil, errDiffers
		}
		meant := -1
		for m, r := range refs {
			if !r.derived && (t.name.Schema == "" && fold(t.name.Table, r.visible) ||
				t.name.Schema != "" && fold(t.name.Table, r.name.Table) && (r.name.Schema == "" || fold(t.name.Schema, r.name.Schema))) {
				meant = m
				if fold(t.name.Schema, r.name.Schema) {
					break
				}
			}
		}
		if meant < 0 {
			one := s.write(dialects.Delete, t)
			one.Reason = "it deletes from a table that is not among those after FROM or USING"
			one.Hint = "name the table as it is named there"
			writes = append(writes, one)
			continue
		}
		one := s.write(dialects.Delete, refs[meant])
		one.Ref = s.uniqueRef(refs, refs[meant])
		writes = append(writes, clauses(one, w))
	}
	return writes, nil
}

// maxRefs bounds the tables of a statement, of which the servers take 61, and
// maxAssigned those of an UPDATE times its assignments, each of which may be
// for any of them.
const (
	maxRefs     = 256
	maxAssigned = 1 << 18
)

// tableRefs reads the table references [lo, hi)
// (https://dev.mysql.com/doc/refman/8.0/en/join.html), in the order of the text.
func (s *source) tableRefs(lo, hi int) ([]ref, bool) {
	var refs []ref
	for i := lo; ; {
		factor, next, ok := s.tableFactor(i, hi)
		if refs = append(refs, factor...); !ok || len(refs) > maxRefs {
			return nil, false
		}
		// What joins it to the next one.
		i = next
		for i < hi && (s.op(i, "}") || s.is(i, "ON") || s.is(i, "USING") && s.op(i+1, "(")) {
			if s.op(i, "}") {
				i++
				continue
			}
			i = s.find(i+1, hi, func(i int) bool {
				return s.op(i, ",") || s.op(i, "}") || s.is(i, "JOIN", "INNER", "CROSS", "NATURAL", "STRAIGHT_JOIN", "ON", "USING") ||
					s.is(i, "LEFT", "RIGHT", "FULL") && !s.op(i+1, "(") // else a function
			})
		}
		if i >= hi {
			return refs, i == hi
		}
		if s.op(i, ",") {
			i++
			continue
		}
		join := i
		for s.is(i, "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "NATURAL") {
			i++
		}
		if !s.is(i, "JOIN") && !(i == join && s.is(i, "STRAIGHT_JOIN")) {
			return nil, false
		}
		i++
	}
}

// tableFactor reads a table, a subquery, a function or references in
// parentheses at token i, with alias and index hints, and gives the token behind.
func (s *source) tableFactor(i, hi int) (refs []ref, next int, ok bool) {
	for s.op(i, "{") && s.is(i+1, "OJ") {
		i += 2
	}
	if s.is(i, "LATERAL") {
		i++
	}
	r := ref{lo: i, hi: i, derived: true}
	switch {
	case i >= hi:
		return nil, 0, false
	case s.op(i, "(") && s.derivedAt(i):
		i = s.next(i)
	case s.op(i, "("):
		refs, ok = s.tableRefs(i+1, s.match(i))
		return refs, s.next(i), ok
	default:
		if r, ok = s.tableName(i, hi); !ok {
			return nil, 0, false
		}
		if i = r.hi; s.op(i, "(") { // JSON_TABLE(…)
			r.derived = true
			i = s.next(i)
		}
	}
	if s.is(i, "PARTITION") && s.op(i+1, "(") {
		r.parted, i = true, s.next(i+1)
	}
	as := s.is(i, "AS")
	if as {
		i++
	}
	if i < hi && s.named(i) && (as || !s.is(i, "JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "NATURAL", "STRAIGHT_JOIN",
		"ON", "USING", "USE", "FORCE", "IGNORE", "FOR", "PARTITION")) {
		r.alias = s.unquote(i)
		r.visible, r.written = r.alias, s.written(i)
		i++
	} else if as {
		return nil, 0, false
	}
	if r.derived && s.op(i, "(") {
		r.columns = [2]int{i, s.next(i)}
		i = s.next(i)
	}
	for i < hi && s.is(i, "USE", "FORCE", "IGNORE") && s.is(i+1, "INDEX", "KEY") {
		list := s.find(i, hi, func(i int) bool { return s.op(i, "(") })
		if list >= hi {
			return nil, 0, false
		}
		i = s.next(list)
	}
	return []ref{r}, i, true
}

// distinct is false when two tables have one name and no schemas of their own
// to tell them apart.
func distinct(refs []ref) bool {
	for i, a := range refs {
		for _, b := range refs[:i] {
			told := a.alias == "" && b.alias == "" && a.name.Schema != "" && b.name.Schema != "" && !fold(a.name.Schema, b.name.Schema)
			if fold(a.visible, b.visible) && !told {
				return false
			}
		}
	}
	return true
}

// derivedAt reports whether the parenthesis that is token i opens a subquery,
// which may stand in more of them, and not table references.
func (s *source) derivedAt(i int) bool {
	for s.op(i+1, "(") {
		if j := s.next(i + 1); !s.op(j, ")") && !s.setOperator(j) && !s.is(j, "ORDER", "LIMIT") {
			return false
		}
		i++
	}
	return s.queryAt(i + 1)
}

// The comparisons of tokens and tree.

// sameName compares a name in the tree with one among the tokens, which clean
// may have changed.
func sameName(tree, token string) bool {
	return fold(tree, token) || freeInMariaDB[strings.ToUpper(token)] && fold(tree, disguise(token))
}

func sameRefs(refs []ref, tree []treeRef) bool {
	if len(refs) != len(tree) {
		return false
	}
	for i, r := range refs {
		t := tree[i]
		if r.derived != t.derived || !sameName(t.alias, r.alias) ||
			!r.derived && (!sameName(t.table, r.name.Table) || !sameName(t.schema, r.name.Schema)) {
			return false
		}
	}
	return true
}

func sameColumns(tree []*ast.ColumnName, columns []string) bool {
	if len(tree) != len(columns) {
		return false
	}
	for i, c := range tree {
		if !sameName(c.Name.O, columns[i]) {
			return false
		}
	}
	return true
}

func sameUpserts(tree []*ast.Assignment, upserts []dialects.Upsert) bool {
	if len(upserts) == 0 {
		return len(tree) == 0
	}
	set := upserts[0].Set
	if len(tree) != len(set) {
		return false
	}
	for i, a := range tree {
		if !sameName(a.Column.Name.O, set[i].Columns[0]) {
			return false
		}
	}
	return true
}

func sameRows(rows []dialects.Row, arms []treeArm) bool {
	for _, a := range arms {
		if a.table {
			a.rows = []int{0}
		}
		for _, n := range a.rows {
			if len(rows) == 0 || len(rows[0].Values) != n || rows[0].Open != (a.open || a.table) {
				return false
			}
			rows = rows[1:]
		}
	}
	return len(rows) == 0
}

// reads reports whether a query reads from a table under the target's name.
func reads(arms []treeArm, target ref) bool {
	for _, a := range arms {
		for _, r := range a.from {
			if r.alias != "" && fold(r.alias, target.visible) || r.alias == "" && fold(r.table, target.visible) {
				return true
			}
		}
	}
	return false
}
