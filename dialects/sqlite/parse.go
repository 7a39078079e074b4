package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sqlc-dev/meyer/ast"
	"github.com/sqlc-dev/meyer/lexer"
	"github.com/sqlc-dev/meyer/parser"
	"github.com/sqlc-dev/meyer/token"

	"github.com/fencedsql/fencedsql/dialects"
)

// grammar accepts ORDER BY and LIMIT on UPDATE and DELETE, which a SQLite
// built for it runs and another refuses itself.
var grammar = parser.Options{UpdateDeleteLimit: true}

// Parse reads a text. The spans come from the tree, whose nodes all know
// where they begin and end.
func (dialect) Parse(text string, _ dialects.Mode) (*dialects.Script, error) {
	if strings.IndexByte(text, 0) >= 0 {
		// SQLite stops reading at a NUL and so would the parser, but a driver may not.
		return nil, errors.New("the text holds a NUL byte")
	}
	src := &source{text: text}
	if strings.Count(text, "(") > maxDepth && src.depth() > maxDepth {
		return nil, fmt.Errorf("more than %d parentheses in one another", maxDepth)
	}
	stmts, err := grammar.ParseString(text)
	if err != nil {
		var perr *parser.Error
		if errors.As(err, &perr) && perr.Offset >= 0 {
			return nil, fmt.Errorf("syntax error at byte %d", perr.Offset)
		}
		return nil, errors.New("syntax error")
	}
	script := &dialects.Script{Anonymous: true}
	for _, tree := range stmts {
		st, err := src.statement(tree)
		if err != nil {
			return nil, err
		}
		for _, p := range st.Params {
			script.Anonymous = script.Anonymous && p.Of(text) == "?"
		}
		script.Statements = append(script.Statements, st)
	}
	return script, nil
}

// source is a text and, once they are needed, its tokens.
type source struct {
	text string
	toks []token.Token
}

func (s *source) tokens() []token.Token {
	if s.toks == nil {
		s.toks = lexer.Lex(s.text)
	}
	return s.toks
}

// maxDepth bounds the nesting of parentheses. The parser bounds its recursion,
// but not where WITH stands in WITH. SQLite itself gives up at a few thousand.
const maxDepth = 10_000

// depth is how many parentheses of the text stand in one another.
func (s *source) depth() (deepest int) {
	n := 0
	for _, tok := range s.tokens() {
		switch tok.Kind {
		case token.LP:
			n++
			deepest = max(deepest, n)
		case token.RP:
			n--
		}
	}
	return deepest
}

func (s *source) statement(tree ast.Stmt) (dialects.Statement, error) {
	text := s.text
	st := dialects.Statement{Span: dialects.Span{Start: tree.Pos(), End: tree.End()}}
	// The parser counts the semicolon in.
	st.End = st.Start + len(strings.TrimRight(text[st.Start:st.End], "; \t\r\n\f"))
	switch n := tree.(type) {
	case *ast.InsertStmt:
		st.Writes = []dialects.Write{insert(text, n)}
	case *ast.UpdateStmt:
		st.Writes = []dialects.Write{update(text, n)}
	case *ast.DeleteStmt:
		st.Writes = []dialects.Write{delete_(text, n)}
	case *ast.DropTableStmt:
		st.Writes = []dialects.Write{other(text, n.Name, "DROP TABLE takes the stored fences away", dialects.HintUnfenced)}
	case *ast.AlterTableStmt:
		switch {
		case n.Action == ast.AlterRenameTable:
			st.Writes = []dialects.Write{other(text, n.Table, "a renamed table is no longer the registered one", dialects.HintUnfenced)}
		case n.Column != nil && n.Action != ast.AlterAddColumn: // which the check of the table asks for
			w := other(text, n.Table, "ALTER TABLE changes the fence column", dialects.HintUnfenced)
			w.Columns = []string{n.Column.Name}
			st.Writes = []dialects.Write{w}
		}
	case *ast.CreateTableStmt:
		if n.Select != nil {
			st.Writes = []dialects.Write{other(text, n.Name, "CREATE TABLE AS writes rows without a fence",
				"create the table first, then INSERT … SELECT")}
		}
	case *ast.BeginStmt:
		st.Tx.Verb = dialects.TxBegin
	case *ast.CommitStmt:
		st.Tx.Verb = dialects.TxCommit
	case *ast.RollbackStmt:
		st.Tx.Verb = dialects.TxRollback
		if n.Savepoint != nil {
			st.Tx = dialects.TxOp{Verb: dialects.TxRollbackTo, Name: strings.ToLower(n.Savepoint.Name)}
		}
	case *ast.SavepointStmt:
		st.Tx = dialects.TxOp{Verb: dialects.TxSavepoint, Name: strings.ToLower(n.Name.Name)}
	case *ast.ReleaseStmt:
		st.Tx = dialects.TxOp{Verb: dialects.TxRelease, Name: strings.ToLower(n.Name.Name)}
	}
	var err error
	if len(st.Writes) > 0 {
		st.Params, err = s.params(st.Start, tree.End())
	}
	return st, err
}

func other(text string, n *ast.QualifiedName, reason, hint string) dialects.Write {
	w := dialects.Write{Op: dialects.Other, Reason: reason, Hint: hint}
	target(text, &w, n, nil)
	return w
}

// maxParam is the largest number of a parameter. SQLite takes 32,766, and no
// build of it that is known more than 250,000.
const maxParam = 1_000_000

// params lists the parameter markers from from to end, with the numbers that
// SQLite gives them (https://sqlite.org/lang_expr.html#varparam). It scans the
// tokens, which costs less than to walk the tree.
func (s *source) params(from, end int) ([]dialects.Param, error) {
	if !strings.ContainsAny(s.text[from:end], "?:@$#") {
		return nil, nil
	}
	toks := s.tokens()
	place := func(at int) int {
		i, _ := slices.BinarySearchFunc(toks, at, func(t token.Token, at int) int { return t.Pos - at })
		return i
	}
	toks = toks[place(from):place(end)]
	n := 0
	for _, tok := range toks {
		if tok.Kind == token.VARIABLE {
			n++
		}
	}
	if n == 0 {
		return nil, nil
	}
	out := make([]dialects.Param, 0, n)
	last := 0
	var named map[string]int // the numbers of :a, @a and $a
	for _, tok := range toks {
		if tok.Kind != token.VARIABLE {
			continue
		}
		p := dialects.Param{Span: dialects.Span{Start: tok.Pos, End: tok.End}}
		switch raw := p.Of(s.text); {
		case raw == "?":
			p.Index = last + 1
		case raw[0] == '?':
			p.Index, _ = strconv.Atoi(raw[1:])
		default:
			p.Name = raw[1:]
			if raw[0] == '$' {
				// modernc.org/sqlite takes $2 for the second argument,
				// whichever parameter SQLite makes of it.
				p.Number, _ = strconv.Atoi(p.Name)
			}
			if p.Index = named[raw]; p.Index == 0 {
				if named == nil {
					named = map[string]int{}
				}
				p.Index = last + 1
				named[raw] = p.Index
			}
		}
		if p.Index > maxParam {
			return nil, fmt.Errorf("a parameter's number is above %d", maxParam)
		}
		last = max(last, p.Index)
		out = append(out, p)
	}
	return out, nil
}

func span(n ast.Node) dialects.Span { return dialects.Span{Start: n.Pos(), End: n.End()} }

func target(text string, w *dialects.Write, n *ast.QualifiedName, alias *ast.Ident) {
	w.Target.Table = n.Name.Name
	w.Ref = n.Name.Raw
	if n.Schema != nil {
		w.Target.Schema = n.Schema.Name
	}
	w.TargetText = span(n).Of(text)
	if alias != nil {
		w.Ref = alias.Raw
	}
}

func insert(text string, n *ast.InsertStmt) dialects.Write {
	w := dialects.Write{Op: dialects.Insert}
	target(text, &w, n.Table, n.Alias)
	if n.Replace || n.OrConflict == ast.ConflictReplace {
		w.Reason = "REPLACE deletes the row that is in the way, whatever its fence"
		w.Hint = "write INSERT … ON CONFLICT (…) DO UPDATE SET …"
		return w
	}
	end := n.Table.End()
	if n.Alias != nil {
		end = n.Alias.End()
	}
	w.ColumnsAt = end
	if w.HasColumns = n.Columns != nil; w.HasColumns {
		w.Columns = names(n.Columns)
		w.ColumnsAt = n.Columns[len(n.Columns)-1].End()
	}
	if n.DefaultValues {
		w.DefaultValues = words(text, w.ColumnsAt, token.DEFAULT, token.VALUES)
		if w.HasColumns {
			// SQLite itself ignores the list here; with a fence in it the row would not fit.
			w.Reason, w.Hint = "DEFAULT VALUES behind a column list", "leave the column list out"
		}
	}
	if n.Select != nil {
		for _, core := range n.Select.Cores {
			w.Rows = rows(w.Rows, core)
		}
	}
	for _, u := range n.Upserts {
		if !u.DoNothing {
			w.Upserts = append(w.Upserts, dialects.Upsert{Set: assignments(u.Set), SetAt: u.Set[len(u.Set)-1].End()})
		}
	}
	returning(&w, n.Returning, 0)
	return w
}

// rows adds the rows that a part of a query gives.
func rows(out []dialects.Row, core ast.SelectCore) []dialects.Row {
	switch c := core.(type) {
	case *ast.ValuesClause:
		out = slices.Grow(out, len(c.Rows))
		for _, row := range c.Rows {
			r := dialects.Row{Values: make([]dialects.Span, len(row)), At: row[len(row)-1].End()}
			for i, e := range row {
				r.Values[i] = span(e)
			}
			out = append(out, r)
		}
	case *ast.SelectQuery:
		r := dialects.Row{Select: true, At: c.Columns[len(c.Columns)-1].End()}
		for _, col := range c.Columns {
			r.Values = append(r.Values, span(col))
			if _, star := col.Expr.(*ast.Star); star {
				r.Open = true
			}
		}
		out = append(out, r)
	}
	return out
}

func update(text string, n *ast.UpdateStmt) dialects.Write {
	w := dialects.Write{
		Op:      dialects.Update,
		Joined:  len(n.From) > 0,
		Limited: n.OrderBy != nil || n.Limit != nil,
		Set:     assignments(n.Set),
		SetAt:   n.Set[len(n.Set)-1].End(),
	}
	target(text, &w, n.Table, n.Alias)
	if n.OrConflict == ast.ConflictReplace {
		w.Reason = "OR REPLACE deletes the row that is in the way, whatever its fence"
		w.Hint = "write a plain UPDATE, and DELETE the other row first"
		return w
	}
	w.WhereAt = w.SetAt
	if w.Joined {
		w.WhereAt = n.From[len(n.From)-1].End()
	}
	where(text, &w, n.Where, n.Table, n.Alias)
	returning(&w, n.Returning, w.WhereAt)
	return w
}

func delete_(text string, n *ast.DeleteStmt) dialects.Write {
	w := dialects.Write{Op: dialects.Delete, Limited: n.OrderBy != nil || n.Limit != nil}
	target(text, &w, n.Table, n.Alias)
	switch {
	case n.IndexedBy != nil:
		w.WhereAt = n.IndexedBy.End()
	case n.NotIndexed:
		w.WhereAt = words(text, n.Table.End(), token.NOT, token.INDEXED).End
	case n.Alias != nil:
		w.WhereAt = n.Alias.End()
	default:
		w.WhereAt = n.Table.End()
	}
	where(text, &w, n.Where, n.Table, n.Alias)
	returning(&w, n.Returning, w.WhereAt)
	w.ReturningRef = n.Table.Name.Raw // RETURNING knows no alias
	return w
}

// words finds two neighbouring words behind an offset, for clauses that are a
// mere flag in the tree. What stands between are names at the most, which
// cannot be these words without quotes.
func words(text string, from int, first, second token.Kind) dialects.Span {
	toks := lexer.Lex(text[from:])
	for i := 0; i+1 < len(toks); i++ {
		if toks[i].Kind == first && toks[i+1].Kind == second {
			return dialects.Span{Start: from + toks[i].Pos, End: from + toks[i+1].End}
		}
	}
	return dialects.Span{}
}

func names(ids []*ast.Ident) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.Name
	}
	return out
}

func assignments(set []*ast.SetPair) []dialects.Assignment {
	out := make([]dialects.Assignment, len(set))
	for i, p := range set {
		out[i] = dialects.Assignment{Span: span(p), Columns: names(p.Columns), Value: span(p.Value)}
	}
	return out
}

func returning(w *dialects.Write, cols []*ast.ResultColumn, at int) {
	w.ReturningAt = at
	if len(cols) > 0 {
		w.ReturningAt = cols[len(cols)-1].End()
	}
	for _, c := range cols {
		w.Returning = append(w.Returning, span(c))
	}
}

// where fills in the condition, and moves WhereAt behind it.
func where(text string, w *dialects.Write, e ast.Expr, table *ast.QualifiedName, alias *ast.Ident) {
	if e == nil {
		return
	}
	w.Where = span(e)
	w.WhereAt = e.End()
	var room [8]ast.Expr
	for rest := append(room[:0], e); len(rest) > 0; { // a stack: chains of AND are as deep as long
		e := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		c := dialects.Conjunct{Span: span(e)}
		switch x := e.(type) {
		case *ast.ParenExpr:
			rest = append(rest, x.X)
			continue
		case *ast.BinaryExpr:
			switch x.Op {
			case ast.OpAnd:
				rest = append(rest, x.Y, x.X)
				continue
			case ast.OpEq:
				eq, ok := equality(text, x.X, x.Y, table, alias)
				if !ok {
					eq, ok = equality(text, x.Y, x.X, table, alias)
				}
				if ok {
					eq.Span = c.Span
					c = eq
				}
			}
		}
		w.Conjuncts = append(w.Conjuncts, c)
	}
}

// equality reads "column = value".
func equality(text string, column, value ast.Expr, table *ast.QualifiedName, alias *ast.Ident) (dialects.Conjunct, bool) {
	var c dialects.Conjunct
	switch col := unparen(column).(type) {
	case *ast.Ident:
		c.Column = col.Name
	case *ast.QualifiedRef:
		last := len(col.Parts) - 1
		qualifier := table.Name
		if alias != nil {
			qualifier = alias
		}
		if !strings.EqualFold(col.Parts[last-1].Name, qualifier.Name) {
			return c, false
		}
		c.Column = col.Parts[last].Name
	default:
		return c, false
	}
	switch v := unparen(value).(type) {
	case *ast.BindParam:
		c.Param = v.Number
		return c, true
	case *ast.Literal:
		return c, v.Kind <= ast.LitBlob
	case *ast.UnaryExpr:
		lit, ok := v.X.(*ast.Literal)
		return c, ok && (v.Op == ast.OpMinus || v.Op == ast.OpPlus) && (lit.Kind == ast.LitInteger || lit.Kind == ast.LitFloat)
	}
	return c, false
}

func unparen(e ast.Expr) ast.Expr {
	for {
		p, ok := e.(*ast.ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}
