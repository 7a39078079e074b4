// Package rewrite decides what becomes of an SQL text: it passes as it is, it
// is fenced, or it is refused. It is pure: no I/O, no clock, no database. What
// it knows of SQL it asks a [dialects.Dialect].
package rewrite

import (
	"slices"
	"strings"
	"unicode"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

// Table is a fenced table. It has the fields of the driver's Table, which
// documents them.
type Table struct {
	Name     string
	Fence    string
	Key      []string
	Encoding lease.Encoding
	Once     bool
}

// Verdict is what becomes of a text.
type Verdict int

const (
	// Pass: send the text as it is.
	Pass Verdict = iota
	// Fence: send Plan.Text with Plan.Args.
	Fence
	// Refuse: send nothing; Plan.Refusal says why.
	Refuse
)

// Arg says where an argument of the rewritten text comes from: above zero the
// caller's argument for the parameter of that Index, else one of the below.
type Arg int

const (
	NoArg    Arg = 0  // a parameter number that the text no longer uses
	FenceArg Arg = -1 // the lease's fence
	BoundArg Arg = -2 // what the stored fence must be below
)

// Plan is the decision on one text. It is immutable. Its names may be parts of
// the text.
type Plan struct {
	Verdict Verdict
	Refusal *Refusal // with Refuse

	// Text and Args are what is sent with Fence.
	Text string
	Args []Arg
	// NumInput is how many arguments the caller's own text takes, and Names
	// what sql.Named may call each; nil when none has a name.
	NumInput int
	Names    []string

	// Guards are the fenced writes of the text, in its order.
	Guards []Guard
	// Loose is true, beside a predicate guard, when arguments of types that do
	// not mean one row by the key take the plan of [Rewriter.Loose].
	Loose bool
	// First, with Fence, is sent before Text in one transaction with it: it
	// locks the rows that Text deletes and reads their fences, a column for
	// each guard.
	First *Query
	// Hidden is true when the last column of the result is the driver's own.
	Hidden bool
	// Count is true when the text has a RETURNING clause only for the
	// assertion: its rows are counted, and not shown.
	Count bool
	// Returns is true when the caller's text gives rows.
	Returns bool

	// Tx is what the text does to the transaction, statement by statement; nil
	// when none does anything.
	Tx []dialects.TxOp
	// TxUnknown is true when the text may do so and cannot be read.
	TxUnknown bool
	// SetsMode is true when the text may change how later texts are read.
	SetsMode bool
	// Defines is true when the text may change the definition of a fenced table.
	Defines bool
	// Listed is true when the column list of an INSERT is not the caller's,
	// and holds as long as the table's definition.
	Listed bool
	// Unread is true when the text passes without having been read, whatever
	// the mode.
	Unread bool
}

// Plain reports whether the text is sent as it is and leaves no trace.
func (p *Plan) Plain() bool {
	return p.Verdict == Pass && p.Tx == nil && !p.TxUnknown && !p.SetsMode && !p.Defines
}

// Guard is one fenced write.
type Guard struct {
	Table *Table
	// Name is the table's name as the statement has it.
	Name dialects.Name
	// Probe, set with the predicate guard, reads the stored fence of the one
	// row that the write may have meant.
	Probe *Query
	// Key are, with Probe, the arguments for the key's columns, in the
	// table's order; NoArg for a literal.
	Key []Arg
}

// Query is a statement of the driver's own and where its arguments come from.
type Query struct {
	Text string
	Args []Arg
}

// Refusal is why a text cannot be fenced, and what to write instead. Columns
// is true when it hangs on the table's columns, which may change.
type Refusal struct {
	Table, Reason, Hint string
	Columns             bool
}

// Columns tells the columns of a table that an INSERT without a column list
// fills, where it gives so many values. It returns nil when they are not known.
type Columns func(t *Table, written dialects.Name, values int) []string

// Rewriter makes plans for one dialect and one set of tables. It is immutable
// and safe for concurrent use.
type Rewriter struct {
	dialect dialects.Dialect
	tables  []table
}

type table struct {
	*Table
	name dialects.Name
	// needle is what a text that names the table contains in some case; ""
	// when the name could be spelled otherwise.
	needle string
	// column is the fence column as it is written in a text.
	column string
}

// New returns a Rewriter. The tables' Fence must be set.
func New(d dialects.Dialect, tables []Table) (*Rewriter, error) {
	r := &Rewriter{dialect: d}
	for i := range tables {
		name, err := dialects.ParseName(tables[i].Name)
		if err != nil {
			return nil, err
		}
		t := table{Table: &tables[i], name: name, column: d.Quote(tables[i].Fence)}
		if plain(name.Table) {
			// PostgreSQL reads no more than 63 bytes of a name.
			t.needle = strings.ToLower(name.Table[:min(len(name.Table), 63)])
		}
		r.tables = append(r.tables, t)
	}
	return r, nil
}

// plain reports whether a name has but one spelling, apart from case: no
// letter that folds in Unicode only, no character that quoting doubles.
func plain(name string) bool {
	for _, c := range []byte(name) {
		if c >= 0x80 || strings.IndexByte("\"`'[]\\", c) >= 0 {
			return false
		}
	}
	return true
}

// Names reports whether the text may name a fenced table.
func (r *Rewriter) Names(text string) bool {
	for i := range r.tables {
		if t := &r.tables[i]; t.needle == "" || contains(text, t.needle) {
			return true
		}
	}
	return len(r.tables) > 0 && r.dialect.Obscured(text)
}

// contains reports whether the text holds the lower-case ASCII needle in any
// case. It looks for the needle's first letter in both cases, each no further
// than it must.
func contains(text, needle string) bool {
	lower := needle[0]
	upper := lower
	if 'a' <= lower && lower <= 'z' {
		upper -= 'a' - 'A'
	}
	end := len(text) - len(needle)
	next := func(from int, c byte) int {
		if from <= end {
			if i := strings.IndexByte(text[from:end+1], c); i >= 0 {
				return from + i
			}
		}
		return end + 1
	}
	l, u := next(0, lower), next(0, upper)
	for {
		i := min(l, u)
		if i > end {
			return false
		}
		if equalFold(text[i:i+len(needle)], needle) {
			return true
		}
		if i == l {
			l = next(i+1, lower)
		}
		if i == u {
			u = next(i+1, upper)
		}
	}
}

func equalFold(s, lower string) bool {
	for i := 0; i < len(lower); i++ {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// Texts that pass share a plan.
var (
	pass         = &Plan{Verdict: Pass}
	passUnread   = &Plan{Verdict: Pass, Unread: true}
	passSetsMode = &Plan{Verdict: Pass, Unread: true, SetsMode: true}
	passDefines  = &Plan{Verdict: Pass, Unread: true, Defines: true}
)

// Reads reports whether the plan of the text takes a parser, and so the
// connection's mode.
func (r *Rewriter) Reads(text string) bool { return r.Names(text) || mayControlTx(text) }

// Plan decides on a text. known is the plan's only link to the database.
func (r *Rewriter) Plan(text string, mode dialects.Mode, known Columns) *Plan {
	fenced := r.Names(text)
	if !fenced && !mayControlTx(text) {
		switch {
		case r.dialect.SetsMode(text):
			return passSetsMode
		case begins(text, definingIndex[:]):
			return passDefines
		}
		return passUnread
	}
	// These hold of a text that is sent in the end, with Unfenced if need be.
	sets, defines := r.dialect.SetsMode(text), fenced && begins(text, defining[:])
	script, err := r.dialect.Parse(text, mode)
	if err != nil {
		p := &Plan{Verdict: Pass}
		if fenced {
			p = refuse(r.named(text), "the text cannot be read: "+err.Error(),
				"correct it, or write it in simpler terms; for administration send it with fencedsql.Unfenced(ctx)")
		}
		p.TxUnknown, p.SetsMode, p.Defines = mayControlTx(text), sets, defines
		return p
	}
	var tx []dialects.TxOp
	if slices.ContainsFunc(script.Statements, func(st dialects.Statement) bool { return st.Tx.Verb != dialects.TxNone }) {
		for i := range script.Statements {
			tx = append(tx, script.Statements[i].Tx)
		}
	}
	p := r.plan(text, mode, script, known)
	if p.Verdict == Fence {
		p.SetsMode = sets // set_config in an expression
		return p
	}
	if len(tx) > 0 || sets || defines {
		return &Plan{Verdict: p.Verdict, Refusal: p.Refusal, Tx: tx, SetsMode: sets, Defines: defines}
	}
	return p
}

// Loose decides on a text whose Plan is Loose as if it did not mean one row.
func (r *Rewriter) Loose(text string, mode dialects.Mode) *Plan {
	script, err := r.dialect.Parse(text, mode)
	if err != nil {
		return refuse(r.named(text), "the text cannot be read: "+err.Error(), "report it, please: it was read before")
	}
	hits, refusal := r.hits(script)
	if refusal != nil {
		return refusal
	}
	s := r.splicer(text, mode, script, nil)
	s.unpinned = true
	return s.plan(hits)
}

func refuse(table, reason, hint string) *Plan {
	return &Plan{Verdict: Refuse, Refusal: &Refusal{Table: table, Reason: reason, Hint: hint}}
}

// named is the name of the fenced table that the text seems to mean: one that
// is a word of it, else one that it holds in another way, else one that could
// be spelled otherwise.
func (r *Rewriter) named(text string) string {
	inside := func(c rune) bool { return c == '_' || c == '$' || unicode.IsLetter(c) || unicode.IsDigit(c) }
	for word := range strings.FieldsFuncSeq(text, func(c rune) bool { return !inside(c) }) {
		for _, t := range r.tables {
			if len(word) == len(t.needle) && equalFold(word, t.needle) {
				return t.Name
			}
		}
	}
	name := r.tables[0].Name
	for _, t := range r.tables {
		if t.needle == "" {
			name = t.Name
		} else if contains(text, t.needle) {
			return t.Name
		}
	}
	return name
}

// txWords are the words that begin or end a transaction or a savepoint.
var txWords = [...]string{"begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare"}

// mayControlTx reports whether the text may begin or end a transaction or a
// savepoint: it begins with a word that does, or holds one behind a semicolon
// or a comment.
func mayControlTx(text string) bool {
	return begins(text, txWords[:])
}

// defining are the words that begin a definition of a table or an index.
var defining = [...]string{"create", "alter", "drop", "rename"}

// definingIndex are the words that begin a definition which need not name the
// table that it changes: DROP INDEX takes the uniqueness from a key.
var definingIndex = [...]string{"alter index", "drop index"}

// begins reports whether the text may have a statement that begins with one
// of the words: the first does, or one of the words stands behind a semicolon
// or a comment.
func begins(text string, words []string) bool {
	text = strings.TrimLeft(text, blanks)
	anywhere := text != "" && strings.IndexByte("-/#", text[0]) >= 0 || strings.IndexByte(strings.TrimRight(text, " \t\r\n;"), ';') >= 0
	for _, w := range words {
		if len(text) >= len(w) && equalFold(text[:len(w)], w) || anywhere && contains(text, w) {
			return true
		}
	}
	return false
}

// blanks are what may stand before a statement; SQLite counts a byte order mark in.
const blanks = " \t\r\n\f\v;\ufeff"

// hit is a write of a fenced table.
type hit struct {
	*dialects.Write
	table *table
	index int // of the write in its statement
}

func (r *Rewriter) plan(text string, mode dialects.Mode, script *dialects.Script, known Columns) *Plan {
	hits, refusal := r.hits(script)
	if refusal != nil {
		return refusal
	}
	if len(hits) == 0 {
		return pass
	}
	return r.splicer(text, mode, script, known).plan(hits)
}

// hits are the writes of fenced tables, where the script may have them.
func (r *Rewriter) hits(script *dialects.Script) (hits []hit, refusal *Plan) {
	for i := range script.Statements {
		st := &script.Statements[i]
		for j := range st.Writes {
			w := &st.Writes[j]
			for k := range r.tables {
				t := &r.tables[k]
				if !r.writes(w, t) {
					continue
				}
				if w.Reason != "" {
					return nil, refuse(t.Name, w.Reason, w.Hint)
				}
				if w.Op == dialects.Other {
					return nil, refuse(t.Name, "this statement cannot be fenced", "write INSERT, UPDATE or DELETE")
				}
				hits = append(hits, hit{w, t, j})
				break
			}
		}
	}
	if len(hits) > 0 && len(script.Statements) > 1 {
		return nil, refuse(hits[0].table.Name, "the text holds several statements", "send each in a call of its own")
	}
	return hits, nil
}

func (r *Rewriter) writes(w *dialects.Write, t *table) bool {
	if w.Op == dialects.Other && w.Target == (dialects.Name{}) {
		return t.needle == "" || contains(w.TargetText, t.needle) || r.dialect.Obscured(w.TargetText)
	}
	if !r.dialect.Matches(t.name, w.Target) {
		return false
	}
	// An ALTER TABLE counts when it changes the fence column.
	return w.Op != dialects.Other || len(w.Columns) == 0 || r.assigns(w.Columns, t.Table)
}

func (r *Rewriter) assigns(columns []string, t *Table) bool {
	for _, c := range columns {
		if r.dialect.SameColumn(t.Fence, c) {
			return true
		}
	}
	return false
}
