package postgres

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sqlc-dev/oliphant/ast"
	"github.com/sqlc-dev/oliphant/parser"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fencedsql/fencedsql/dialects"
)

// Parse reads a text. Its errors quote nothing of it.
func (dialect) Parse(text string, mode dialects.Mode) (*dialects.Script, error) {
	switch {
	case len(text) > math.MaxInt32:
		return nil, errors.New("the text is longer than 2 GB")
	case strings.IndexByte(text, 0) >= 0:
		// The parser stops reading there.
		return nil, errors.New("the text holds a NUL byte")
	case !utf8.ValidString(text):
		// The parser would go another way, which recurses with the length.
		return nil, errors.New("the text is not UTF-8")
	}
	toks, backslash, err := lex(text)
	if err != nil {
		return nil, err
	}
	if backslash && mode&backslashes != 0 {
		return nil, errors.New("a string literal holds a backslash, and standard_conforming_strings is off: write E'…', or turn the setting on")
	}
	tree, err := parse(text, len(toks))
	if err != nil {
		return nil, err
	}
	script := &dialects.Script{Statements: make([]dialects.Statement, len(tree.Stmts))}
	var room [4]int
	r := reader{text: text, toks: toks, verbs: room[:0]}
	for i, raw := range tree.Stmts {
		if err := r.statement(raw, &script.Statements[i]); err != nil {
			return nil, err
		}
	}
	return script, nil
}

// parse calls the parser on a text of so many tokens. What it says of an error
// quotes the text, where the place of the error would begin a literal: only the
// place is told.
func parse(text string, tokens int) (tree *ast.ParseResult, err error) {
	defer func() {
		if recover() != nil {
			tree, err = nil, errors.New("the parser cannot read the text")
		}
	}()
	// The parser makes room for a token in three bytes, and copies all that it
	// has each time that it needs more. Blanks behind a dense text spare that.
	tree, err = parser.ParseToTree(text + strings.Repeat(" ", max(3*tokens-len(text), 0)))
	var perr *parser.Error
	switch {
	case errors.As(err, &perr) && perr.Cursorpos > 0:
		return nil, fmt.Errorf("syntax error near character %d", min(perr.Cursorpos, utf8.RuneCountInString(text)+1))
	case err != nil:
		return nil, errors.New("syntax error")
	}
	return tree, nil
}

// reader turns the trees of a text's statements into writes.
type reader struct {
	text string
	toks []token
	st   *dialects.Statement
	tree *ast.Node
	// The statement's tokens.
	lo, hi int
	// The tokens INSERT, UPDATE, DELETE and MERGE of the writes read so far.
	verbs []int
	h     head // of the write at hand
	// visits counts the nodes that walk looked at.
	visits int
}

// maxVisits bounds visits: each walk goes through all of a tree, at some 200 ns
// a node.
const maxVisits = 1 << 20

func (r *reader) statement(raw *ast.RawStmt, st *dialects.Statement) error {
	index := func(offset int32) int {
		i, _ := slices.BinarySearchFunc(r.toks, offset, func(t token, o int32) int { return int(t.start - o) })
		return i
	}
	lo, hi := index(raw.StmtLocation), len(r.toks)
	if raw.StmtLen > 0 {
		hi = index(raw.StmtLocation + raw.StmtLen)
	}
	if lo >= hi {
		return errors.New("the statements cannot be told apart")
	}
	r.st, r.tree, r.lo, r.hi, r.verbs = st, raw.Stmt, lo, hi, r.verbs[:0]
	st.Span = dialects.Span{Start: int(r.toks[lo].start), End: int(r.toks[hi-1].end)}
	r.read(raw.Stmt)
	switch raw.Stmt.GetNode().(type) {
	case *ast.Node_PrepareStmt, *ast.Node_CreateFunctionStmt:
		return nil // the parameters are those of what they define
	}
	if err := r.params(); err != nil {
		return err
	}
	r.unpin()
	return nil
}

// unpin takes back what means one value of a column by a parameter that stands
// elsewhere too. A parameter has one type, which its first place decides: as
// $1::float8 it compares with a bigint column after a conversion that is not
// one to one.
func (r *reader) unpin() {
	var room [64]bool
	var shared []bool // by number; nil until it is needed
	for i := range r.st.Writes {
		conjuncts := r.st.Writes[i].Conjuncts
		for j := range conjuncts {
			c := &conjuncts[j]
			if c.Param == 0 {
				continue
			}
			if shared == nil {
				shared = sharedParams(room[:], r.st.Params)
			}
			if shared[c.Param] {
				c.Column, c.Param = "", 0
			}
		}
	}
}

// sharedParams tells by a parameter's number whether it stands in several
// places. It uses the room if that is enough.
func sharedParams(room []bool, params []dialects.Param) []bool {
	most := 0
	for _, p := range params {
		most = max(most, p.Index)
	}
	shared := room
	if 2*(most+1) > len(room) {
		shared = make([]bool, 2*(most+1))
	}
	shared, seen := shared[:most+1], shared[most+1:]
	for _, p := range params {
		shared[p.Index] = seen[p.Index]
		seen[p.Index] = true
	}
	return shared
}

func (r *reader) params() error {
	n := 0
	for _, t := range r.toks[r.lo:r.hi] {
		if t.kind == param {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	r.st.Params = make([]dialects.Param, 0, n)
	for _, t := range r.toks[r.lo:r.hi] {
		if t.kind != param {
			continue
		}
		// The protocol counts parameters with 16 bits.
		index, err := strconv.ParseUint(r.text[t.start+1:t.end], 10, 16)
		if err != nil || index == 0 {
			return errors.New("a parameter's number is not between 1 and 65535")
		}
		r.st.Params = append(r.st.Params, dialects.Param{
			Span:  dialects.Span{Start: int(t.start), End: int(t.end)},
			Index: int(index),
		})
	}
	return nil
}

// What to write instead.
const (
	hintAlone   = "send the write as a statement of its own"
	hintInsert  = "write INSERT … SELECT, from unnest($1, $2) for many rows"
	hintMerge   = "write INSERT … ON CONFLICT … DO UPDATE, or an UPDATE and an INSERT"
	hintCurrent = "name the row by its key in the WHERE clause"
	hintColumns = "select the columns by name"
	hintSimpler = "write the statement in simpler terms, and report it, please"
)

// read reads what a statement writes when it is run. What a function, a
// trigger, a rule or a prepared statement writes is not in the text, and a
// definition of one writes nothing.
func (r *reader) read(n *ast.Node) {
	switch n := n.GetNode().(type) {
	case *ast.Node_InsertStmt, *ast.Node_UpdateStmt, *ast.Node_DeleteStmt, *ast.Node_MergeStmt:
		r.write(n, nil)
	case *ast.Node_SelectStmt:
		r.with(n.SelectStmt.WithClause)
		for _, arm := range leaves(n.SelectStmt) {
			if arm.IntoClause != nil {
				r.other(arm.IntoClause.Rel, "SELECT INTO writes rows without a fence", hintInsert)
			}
		}
	case *ast.Node_TransactionStmt:
		r.st.Tx = txOp(n.TransactionStmt)
		return
	case *ast.Node_ExplainStmt:
		if analyzes(n.ExplainStmt.Options) {
			r.refuse(n.ExplainStmt.Query, "EXPLAIN ANALYZE runs the write", "EXPLAIN it without ANALYZE")
		}
		return
	case *ast.Node_PrepareStmt:
		r.refuse(n.PrepareStmt.Query, "a statement prepared by name is not seen when it is executed",
			"prepare it with database/sql")
		return
	case *ast.Node_DeclareCursorStmt:
		r.refuse(n.DeclareCursorStmt.Query, "a cursor writes as it is read", hintAlone)
		return
	case *ast.Node_CreateTableAsStmt:
		r.other(n.CreateTableAsStmt.Into.GetRel(), "a table created from a query gets rows without a fence",
			"create the table first, then INSERT … SELECT")
		r.refuse(n.CreateTableAsStmt.Query, "CREATE TABLE AS runs the write", hintAlone)
		return
	case *ast.Node_CopyStmt:
		if n.CopyStmt.IsFrom {
			r.other(n.CopyStmt.Relation, "COPY FROM writes rows without a fence", hintInsert)
		}
		r.refuse(n.CopyStmt.Query, "COPY runs the write", hintAlone)
		return
	default:
		r.utility(n)
		return
	}
	r.search()
}

// refuse reads a query whose writes cannot be fenced where it stands.
func (r *reader) refuse(query *ast.Node, reason, hint string) {
	if query == nil {
		return
	}
	n := len(r.st.Writes)
	r.read(query)
	for i, w := range r.st.Writes[n:] {
		if w.Reason == "" || w.Op != dialects.Other {
			w = dialects.Write{Target: w.Target, TargetText: w.TargetText, Nested: w.Nested, Reason: reason, Hint: hint}
		}
		r.st.Writes[n+i] = w
	}
}

// utility reads the statements that change tables but are no DML.
func (r *reader) utility(n any) {
	switch n := n.(type) {
	case *ast.Node_TruncateStmt:
		for _, t := range n.TruncateStmt.Relations {
			r.other(t.GetRangeVar(), "TRUNCATE takes rows away without a look at their fences",
				"write DELETE FROM; "+dialects.HintUnfenced)
		}
	case *ast.Node_DropStmt:
		switch n.DropStmt.RemoveType {
		case ast.ObjectType_OBJECT_TABLE, ast.ObjectType_OBJECT_FOREIGN_TABLE:
			for _, t := range n.DropStmt.Objects {
				r.dropped(t.GetList().GetItems())
			}
		}
	case *ast.Node_AlterTableStmt:
		var columns []string
		for _, c := range n.AlterTableStmt.Cmds {
			switch c := c.GetAlterTableCmd(); c.GetSubtype() {
			case ast.AlterTableType_AT_DropColumn, ast.AlterTableType_AT_AlterColumnType, ast.AlterTableType_AT_DropNotNull:
				columns = append(columns, c.Name)
			}
		}
		if len(columns) > 0 {
			r.altered(n.AlterTableStmt.Relation, columns)
		}
	case *ast.Node_RenameStmt:
		switch s := n.RenameStmt; {
		case s.RenameType == ast.ObjectType_OBJECT_COLUMN && s.Relation != nil:
			r.altered(s.Relation, []string{s.Subname})
		case s.RenameType == ast.ObjectType_OBJECT_TABLE:
			r.other(s.Relation, "a renamed table is no longer the registered one", dialects.HintUnfenced)
		}
	case *ast.Node_AlterObjectSchemaStmt:
		if s := n.AlterObjectSchemaStmt; s.ObjectType == ast.ObjectType_OBJECT_TABLE {
			r.other(s.Relation, "a table moved to another schema is no longer the registered one", dialects.HintUnfenced)
		}
	case *ast.Node_DoStmt:
		code := []string{r.st.Of(r.text)}
		for _, a := range n.DoStmt.Args {
			if s := a.GetDefElem().GetArg().GetString_(); s != nil {
				code = append(code, s.Sval)
			}
		}
		r.code("DO", strings.Join(code, "\n"))
	case *ast.Node_CallStmt:
		r.code("CALL", r.st.Of(r.text))
	}
}

// code adds a write of whatever the code of a statement names.
func (r *reader) code(verb, text string) {
	r.st.AddWrite(r.text, dialects.Write{
		TargetText: text,
		Reason:     "what " + verb + " writes cannot be fenced",
		Hint:       hintAlone + "; " + dialects.HintUnfenced,
	})
}

// other adds a write that cannot be fenced.
func (r *reader) other(rel *ast.RangeVar, reason, hint string) {
	if rel == nil {
		return
	}
	w := dialects.Write{Target: dialects.Name{Schema: rel.Schemaname, Table: rel.Relname}, Reason: reason, Hint: hint}
	p := r.places()
	w.TargetText = p.span(p.qualified(p.at(rel.Location))).Of(r.text)
	r.st.AddWrite(r.text, w)
}

func (r *reader) altered(rel *ast.RangeVar, columns []string) {
	n := len(r.st.Writes)
	r.other(rel, "ALTER TABLE changes the fence column", dialects.HintUnfenced)
	for i := range r.st.Writes[n:] {
		r.st.Writes[n+i].Columns = columns
	}
}

// dropped adds a table of a DROP TABLE, of which the tree has the name only.
func (r *reader) dropped(name []*ast.Node) {
	var parts, quoted []string
	for _, n := range name {
		parts = append(parts, n.GetString_().GetSval())
		quoted = append(quoted, quote(n.GetString_().GetSval()))
	}
	w := dialects.Write{TargetText: strings.Join(quoted, "."), Reason: "DROP TABLE takes the stored fences away", Hint: dialects.HintUnfenced}
	switch n := len(parts); n {
	case 0:
		return
	case 1:
		w.Target.Table = parts[0]
	default:
		w.Target = dialects.Name{Schema: parts[n-2], Table: parts[n-1]}
	}
	r.st.AddWrite(r.text, w)
}

// analyzes reports whether EXPLAIN runs its statement. An option may be
// written off, in many spellings: only the plain ones count as off.
func analyzes(options []*ast.Node) bool {
	for _, o := range options {
		d := o.GetDefElem()
		if d.GetDefname() != "analyze" {
			continue
		}
		switch strings.ToLower(d.GetArg().GetString_().GetSval()) {
		case "off", "false":
		default:
			if i := d.GetArg().GetInteger(); i == nil || i.Ival != 0 {
				return true
			}
		}
	}
	return false
}

func txOp(s *ast.TransactionStmt) dialects.TxOp {
	switch s.Kind {
	case ast.TransactionStmtKind_TRANS_STMT_BEGIN, ast.TransactionStmtKind_TRANS_STMT_START:
		return dialects.TxOp{Verb: dialects.TxBegin}
	case ast.TransactionStmtKind_TRANS_STMT_COMMIT, ast.TransactionStmtKind_TRANS_STMT_PREPARE:
		return dialects.TxOp{Verb: dialects.TxCommit, Chain: s.Chain}
	case ast.TransactionStmtKind_TRANS_STMT_ROLLBACK:
		return dialects.TxOp{Verb: dialects.TxRollback, Chain: s.Chain}
	case ast.TransactionStmtKind_TRANS_STMT_SAVEPOINT:
		return dialects.TxOp{Verb: dialects.TxSavepoint, Name: s.SavepointName}
	case ast.TransactionStmtKind_TRANS_STMT_RELEASE:
		return dialects.TxOp{Verb: dialects.TxRelease, Name: s.SavepointName}
	case ast.TransactionStmtKind_TRANS_STMT_ROLLBACK_TO:
		return dialects.TxOp{Verb: dialects.TxRollbackTo, Name: s.SavepointName}
	}
	return dialects.TxOp{} // COMMIT PREPARED and ROLLBACK PREPARED end another's
}

// with reads the writes of a WITH clause.
func (r *reader) with(clause *ast.WithClause) {
	for _, n := range clause.GetCtes() {
		cte := n.GetCommonTableExpr()
		switch q := cte.GetCtequery().GetNode().(type) {
		case *ast.Node_SelectStmt:
			r.with(q.SelectStmt.WithClause)
		default:
			r.write(q, cte)
		}
	}
}

// search reads the writes in CTEs elsewhere than where PostgreSQL takes them,
// at the statement's top. It goes through the whole tree, and so only if there
// is a verb among the tokens that belongs to no write read so far.
func (r *reader) search() {
	suspect := false
	for i := r.lo + 1; i < r.hi && !suspect && !r.st.Full(); i++ {
		switch r.toks[i].kind {
		case kwInsert, kwUpdate, kwDelete, kwMerge:
			switch r.toks[i-1].kind {
			case kwFor, kwKey, kwDo, dot: // FOR UPDATE, FOR NO KEY UPDATE, DO UPDATE, t.update
			default:
				suspect = !slices.Contains(r.verbs, i)
			}
		}
	}
	if !suspect {
		return
	}
	var ctes []*ast.CommonTableExpr
	if !r.walk(func(m protoreflect.ProtoMessage) bool {
		if cte, ok := m.(*ast.CommonTableExpr); ok {
			ctes = append(ctes, cte)
		}
		return true
	}) {
		r.st.AddWrite(r.text, dialects.Write{
			TargetText: r.st.Of(r.text),
			Reason:     "the statement is too long to be searched for writes in subqueries",
			Hint:       "quote columns that are called insert, update, delete or merge",
		})
		return
	}
	slices.SortFunc(ctes, func(a, b *ast.CommonTableExpr) int { return int(a.Location - b.Location) })
	for _, cte := range ctes {
		r.write(cte.GetCtequery().GetNode(), cte)
	}
}

// walk goes through the statement's tree. It returns false when it gave up
// because of maxVisits.
func (r *reader) walk(visit func(protoreflect.ProtoMessage) bool) bool {
	walk(r.tree, func(m protoreflect.ProtoMessage) bool {
		r.visits++
		return r.visits <= maxVisits && visit(m)
	})
	return r.visits <= maxVisits
}

// walk calls visit for every message of a tree in no certain order, and goes
// into it if visit says so. It keeps its own stack: a tree can be deep.
func walk(tree protoreflect.ProtoMessage, visit func(protoreflect.ProtoMessage) bool) {
	for rest := []protoreflect.Message{tree.ProtoReflect()}; len(rest) > 0; {
		m := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		i := m.Interface()
		if ref, ok := i.(*ast.MultiAssignRef); ok && ref.Colno > 1 {
			continue // (a, b) = …: the source is the first column's, not a copy
		}
		if !visit(i) {
			continue
		}
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.Kind() != protoreflect.MessageKind:
			case f.IsList():
				for i := range v.List().Len() {
					rest = append(rest, v.List().Get(i).Message())
				}
			default:
				rest = append(rest, v.Message())
			}
			return true
		})
	}
}

func (r *reader) places() *places { return &places{text: r.text, toks: r.toks} }

// write reads a statement of DML, in a CTE if there is one. One that was read
// before it leaves alone.
func (r *reader) write(n any, cte *ast.CommonTableExpr) {
	if r.st.Full() {
		return
	}
	switch n := n.(type) {
	case *ast.Node_InsertStmt:
		r.with(n.InsertStmt.WithClause)
		if h := r.head(dialects.Insert, n.InsertStmt.Relation, cte); h != nil {
			h.insert(n.InsertStmt)
			r.add(h)
			r.with(n.InsertStmt.SelectStmt.GetSelectStmt().GetWithClause())
		}
	case *ast.Node_UpdateStmt:
		r.with(n.UpdateStmt.WithClause)
		if h := r.head(dialects.Update, n.UpdateStmt.Relation, cte); h != nil {
			h.update(n.UpdateStmt)
			r.add(h)
		}
	case *ast.Node_DeleteStmt:
		r.with(n.DeleteStmt.WithClause)
		if h := r.head(dialects.Delete, n.DeleteStmt.Relation, cte); h != nil {
			h.delete(n.DeleteStmt)
			if cte != nil {
				switch wide, ok := r.widens(cte, n.DeleteStmt.ReturningClause); {
				case !ok:
					h.refuse("the statement is too long to be searched for those who take the rows that this DELETE returns", hintAlone)
				case wide:
					h.refuse("the rows that this DELETE returns are taken as a whole, and would be one column wider", hintColumns)
				}
			}
			r.add(h)
		}
	case *ast.Node_MergeStmt:
		r.with(n.MergeStmt.WithClause)
		if h := r.head(dialects.Other, n.MergeStmt.Relation, cte); h != nil {
			h.refuse("MERGE cannot be fenced", hintMerge)
			r.add(h)
		}
	}
}

// head is a write whose target is read and whose clauses are not.
type head struct {
	places
	dialects.Write
	// The tokens behind the target and its alias.
	lo, hi int
}

// head reads the target of a write. It returns nil if the write was read before.
func (r *reader) head(op dialects.Op, rel *ast.RangeVar, cte *ast.CommonTableExpr) *head {
	h := &r.h
	*h = head{
		places: places{text: r.text, toks: r.toks, ref: rel.Relname},
		Write: dialects.Write{
			Op:     op,
			Target: dialects.Name{Schema: rel.Schemaname, Table: rel.Relname},
			Nested: cte != nil,
		},
		hi: r.hi,
	}
	first, last := h.qualified(h.at(rel.Location))
	h.TargetText = h.span(first, last).Of(r.text)
	h.lo = last
	switch {
	case h.kind(first-1) == kwOnly:
		first--
	case h.kind(first-1) == lparen && h.kind(first-2) == kwOnly:
		first -= 2
		h.lo = h.expect(h.lo, rparen)
	}
	verb := first - 1
	if op != dialects.Update { // INSERT INTO, DELETE FROM, MERGE INTO
		verb--
		if h.kind(h.lo) == star && op == dialects.Delete {
			h.lo++
		}
	} else if h.kind(h.lo) == star {
		h.lo++
	}
	h.must(verb >= r.lo)
	if h.lost {
		return h
	}
	if slices.Contains(r.verbs, verb) {
		return nil
	}
	r.verbs = append(r.verbs, verb)
	if up := h.toks[verb].up; up >= 0 {
		h.hi = int(h.toks[up].mate)
	}
	name := last - 1
	if h.kind(name-1) == kwUescape {
		name -= 2
	}
	if rel.Alias != nil {
		h.ref = rel.Alias.Aliasname
		if h.kind(h.lo) == kwAs {
			h.lo++
		}
		name = h.lo
		h.lo = h.name(name)
	}
	if h.kind(name) == uword {
		h.Ref = quote(h.ref)
	} else {
		h.Ref = h.span(name, name+1).Of(r.text)
	}
	return h
}

func (r *reader) add(h *head) {
	if h.lost {
		h.refuse("its clauses cannot be told apart", hintSimpler)
	}
	r.st.AddWrite(r.text, h.Write)
}

func (h *head) refuse(reason, hint string) {
	h.Write = dialects.Write{
		Op: h.Op, Target: h.Target, TargetText: h.TargetText, Ref: h.Ref, Nested: h.Nested,
		Reason: reason, Hint: hint,
	}
}

func (h *head) insert(s *ast.InsertStmt) {
	i := h.lo
	h.ColumnsAt = h.end(i)
	if len(s.Cols) > 0 {
		end := h.brackets(i)
		h.HasColumns = true
		h.targets(s.Cols, i+1, end-1)
		h.Columns = make([]string, len(s.Cols))
		for j, c := range s.Cols {
			h.Columns[j] = c.GetResTarget().GetName()
		}
		h.ColumnsAt = h.end(end - 1)
		i = end
	}
	if h.kind(i) == kwOverriding { // … USER VALUE
		i += 3
	}
	hi := h.returning(&h.Write, s.ReturningClause, h.hi)
	if c := s.OnConflictClause; c != nil {
		on := h.at(c.Location)
		if c.Action == ast.OnConflictAction_ONCONFLICT_UPDATE {
			h.upsert(c, on, hi)
		}
		hi = on
	}
	if s.SelectStmt == nil {
		h.DefaultValues = h.span(i, i+2)
		h.expect(h.expect(i, kwDefault), kwValues)
		h.must(i+2 == hi)
		return
	}
	var reason string
	if h.Rows, reason = h.rows(s.SelectStmt.GetSelectStmt(), i, hi); reason != "" && !h.lost {
		h.Write.Rows = nil
		h.refuse("there is no place for the fence in the rows of this INSERT: "+reason, "write INSERT … SELECT with its columns")
	}
}

func (h *head) upsert(c *ast.OnConflictClause, i, hi int) {
	i = h.find(i, hi, kwDo)
	i = h.expect(h.expect(h.expect(i, kwDo), kwUpdate), kwSet)
	end := hi
	if c.WhereClause != nil {
		end = h.find(i, hi, kwWhere)
		h.must(end < hi)
	}
	h.Upserts = []dialects.Upsert{{Set: h.assignments(c.TargetList, i, end), SetAt: h.end(end)}}
}

func (h *head) update(s *ast.UpdateStmt) {
	i := h.expect(h.lo, kwSet)
	hi := h.condition(s.WhereClause, s.ReturningClause, i)
	if h.Joined = len(s.FromClause) > 0; h.Joined {
		end := h.find(i, hi, kwFrom)
		h.must(end < hi)
		hi = end
	}
	h.Set = h.assignments(s.TargetList, i, hi)
	h.SetAt = h.end(hi)
}

func (h *head) delete(s *ast.DeleteStmt) {
	hi := h.condition(s.WhereClause, s.ReturningClause, h.lo)
	if h.Joined = len(s.UsingClause) > 0; h.Joined {
		h.must(h.kind(h.lo) == kwUsing)
	} else {
		h.must(h.lo == hi)
	}
}

// condition reads the WHERE and RETURNING clauses of an UPDATE or DELETE, and
// returns the token with which they begin.
func (h *head) condition(where *ast.Node, returning *ast.ReturningClause, lo int) int {
	hi := h.returning(&h.Write, returning, h.hi)
	if where == nil {
		h.WhereAt = h.end(hi)
		return hi
	}
	i := h.find(lo, hi, kwWhere)
	if h.must(i+1 < hi); h.lost {
		return hi
	}
	h.Where = h.span(i+1, hi)
	if where.GetCurrentOfExpr() != nil {
		h.refuse("WHERE CURRENT OF names its row by a cursor", hintCurrent)
		h.Op = dialects.Other
		return i
	}
	h.Conjuncts = h.conjuncts(&h.Write, where, i+1, hi)
	return i
}

// widens reports whether one more column returned by a DELETE in a CTE could
// show anywhere: in a star, in a natural join, where a row is taken as a
// whole, or by its name, "case". Where the DELETE returns nothing, that is
// wherever the CTE is read, which is an error without the column. ok is false
// when that would take too long to tell.
func (r *reader) widens(cte *ast.CommonTableExpr, returning *ast.ReturningClause) (wide, ok bool) {
	if !r.mentions(cte) {
		return false, r.visits <= maxVisits
	}
	rows := map[string]bool{cte.Ctename: true, "case": true}
	var columns []*ast.ColumnRef
	ok = r.walk(func(m protoreflect.ProtoMessage) bool {
		switch m := m.(type) {
		case *ast.ReturningClause:
			return m != returning // its own star is of the table
		case *ast.RangeVar:
			wide = wide || returning == nil && m.Relname == cte.Ctename && m.Schemaname == ""
		case *ast.A_Star:
			wide = true
		case *ast.JoinExpr:
			wide = wide || m.IsNatural
		case *ast.Alias:
			rows[m.Aliasname] = true
		case *ast.ColumnRef:
			columns = append(columns, m)
		}
		return !wide
	})
	for _, c := range columns {
		last := c.Fields[len(c.Fields)-1].GetString_().GetSval()
		wide = wide || last == "case" || len(c.Fields) == 1 && rows[last]
	}
	return wide, ok
}

// mentions reports whether a word of the statement, but for the one that names
// it, may be the name of the CTE.
func (r *reader) mentions(cte *ast.CommonTableExpr) bool {
	if r.visits += (r.hi - r.lo) / 16; r.visits > maxVisits {
		return false // so many tokens take as long as a node
	}
	for _, t := range r.toks[r.lo:r.hi] {
		switch name := r.text[t.start:t.end]; {
		case t.start == cte.Location:
		case t.kind == word && name[0] == '"':
			if strings.Trim(name, `"`) == cte.Ctename || strings.Contains(name, `""`) {
				return true
			}
		case t.kind == uword, (t.kind == word || t.kind >= kwAll) && strings.EqualFold(clip(name), cte.Ctename):
			return true
		}
	}
	return false
}
