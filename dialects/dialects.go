// Package dialects says what an SQL dialect must know for its writes to be
// fenced, and keeps the registry of the dialects that are linked in.
//
// A dialect knows one engine's grammar and nothing of leases: it reads a text
// into a [Script] (which tables are written, and where in the text each clause
// stands), gives the engine's own words for an assertion, recognises a refusal
// among the engine's errors and inspects a table's columns. What is fenced and
// how is decided in package rewrite.
//
// A dialect registers itself when its package is imported:
//
//	import _ "github.com/fencedsql/fencedsql/dialects/sqlite"
package dialects

import (
	"context"
	"database/sql/driver"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/fencedsql/fencedsql/lease"
)

// Dialect is one engine's SQL. Its methods are pure but for Mode and Check,
// which ask the database, and are safe for concurrent use.
type Dialect interface {
	// Name is the dialect's name: "sqlite", "postgres", "mysql".
	Name() string

	// Parse reads a text. An error means that the dialect cannot tell what the
	// text does; its message quotes no more of the text than one token.
	Parse(text string, mode Mode) (*Script, error)

	// Obscured reports whether the text may write a table of which a search
	// for the plain name, without regard to case, finds nothing: the name is
	// spelled otherwise, or is in a text that the statement makes and runs. It
	// is asked of every text that names no fenced table, before Parse.
	Obscured(text string) bool

	// Name comparison is the engine's: Matches reports whether a name as
	// written in a statement may mean the registered one. Doubt is a match.
	Matches(registered, written Name) bool

	// SameColumn reports whether two column names, as they stand in a Script
	// or a registration, mean the same column.
	SameColumn(a, b string) bool

	// Quote returns the column or table name as it must be written in a text,
	// plain where that is possible.
	Quote(name string) string

	// Placeholder is the n-th parameter marker (from 1) where markers carry
	// numbers, and "?" where they do not.
	Placeholder(n int) string

	// Cast gives a parameter marker the type of the encoding, for a row of a
	// query, where the engine has no column to take it from.
	Cast(marker string, enc lease.Encoding) string

	// Assert is an expression for the new value of a fence column: fence where
	// column < bound holds, else an error of the engine that undoes the whole
	// statement and that Refused recognises.
	Assert(column, bound, fence string, enc lease.Encoding) string

	// DeleteGuard says how a DELETE of many rows is guarded.
	DeleteGuard() DeleteGuard

	// LooseKeys reports whether TableInfo.Key may matter.
	LooseKeys() bool

	// ShortRows reports whether an INSERT without a column list may give fewer
	// values than the table has columns.
	ShortRows() bool

	// Lock is what follows a SELECT that must read the newest committed row
	// and keep it: " FOR UPDATE", or nothing where every read does.
	Lock() string

	// Newest is what follows a SELECT that must see the rows that a write
	// before it saw: Lock, or nothing where a read does not see older ones. It
	// must not wait for others where the write did not.
	Newest() string

	// Refused reports whether the error is one that Assert raised on the given
	// fence column, and the stored fence where the error makes it known: the
	// zero Fence for a value that is none.
	Refused(err error, column string, enc lease.Encoding) (stored lease.Fence, known, refused bool)

	// MayCommit reports whether the text may end a transaction by the way,
	// without a TxOp that says so.
	MayCommit(text string) bool

	// CommitEnds reports whether a COMMIT that failed with the error has ended
	// the transaction, where LostTx cannot tell.
	CommitEnds(err error) bool

	// LostTx is a statement that succeeds outside a transaction only, for
	// engines that end a transaction on their own when a statement fails; ""
	// for those that do not.
	LostTx() string

	// Mode asks the connection for the settings that change how a text is
	// read. It returns an error that names the setting where the dialect
	// cannot read texts under it.
	Mode(ctx context.Context, q Querier) (Mode, error)

	// SetsMode reports whether the text may change those settings.
	SetsMode(text string) bool

	// Check reads the table's definition. A nil problem means that the fence
	// column can hold fences unchanged and that the key, if any, is unique.
	// Info tells the columns, for an INSERT without a column list.
	Check(ctx context.Context, q Querier, table CheckedTable) (*TableInfo, *Problem, error)
}

// Mode is a set of connection settings that change how a text is read; each
// dialect gives its bits their meaning, and zero is the engine's default.
type Mode uint32

// NoAutocommit is the bit of a Mode that all dialects share: statements run in
// a transaction that no statement began.
const NoAutocommit Mode = 1 << 31

// DeleteGuard says how a DELETE of many rows is guarded.
type DeleteGuard int

const (
	// DeleteReturning carries the assertion in a RETURNING clause.
	DeleteReturning DeleteGuard = iota
	// DeleteAfterRead locks and reads the fences of the rows by a SELECT with
	// the same condition, order and limit, then deletes those below the bound,
	// in one transaction.
	DeleteAfterRead
)

// Querier sends one reading statement on the connection at hand and returns
// all of its rows.
type Querier interface {
	Query(ctx context.Context, text string, args ...driver.Value) ([][]driver.Value, error)
}

// CheckedTable is what Check needs of a registered table: its name as the
// statement at hand writes it, and the registered columns.
type CheckedTable struct {
	Name     Name
	Fence    string
	Key      []string
	Encoding lease.Encoding
}

// TableInfo is what a table looks like in the database.
type TableInfo struct {
	// Columns are the names that an INSERT without a column list fills, in order.
	Columns []string
	// Key are the types of the key's columns, in the order of
	// CheckedTable.Key, where the engine compares a value of another type in
	// a way that may hold for several rows; nil where it does not.
	Key []KeyType
}

// KeyType says which arguments mean one row at most by a key column.
type KeyType int

const (
	NoKey      KeyType = iota // none, as far as is known
	IntegerKey                // integers
	TextKey                   // text and bytes
)

// Problem is why a table cannot be fenced as registered, and the DDL that
// changes that, or "" where none does.
type Problem struct {
	Reason string
	DDL    string
}

// Name is a table's name. In a [Script] it is as the engine reads it: without
// quotes, and folded where the engine folds.
type Name struct{ Schema, Table string }

func (n Name) String() string { return n.Quoted(func(part string) string { return part }) }

// Quoted is the name as it must be written in a text, each part by quote.
func (n Name) Quoted(quote func(part string) string) string {
	if n.Schema == "" {
		return quote(n.Table)
	}
	return quote(n.Schema) + "." + quote(n.Table)
}

// Matches is [Dialect.Matches] for an engine that compares both parts of a
// name by same: a name without a schema may be one in any.
func (n Name) Matches(written Name, same func(registered, written string) bool) bool {
	if n.Schema != "" && written.Schema != "" && !same(n.Schema, written.Schema) {
		return false
	}
	return same(n.Table, written.Table)
}

// ParseName reads a registered table name: "chats", "app.chats", and with
// double quotes where a part holds a dot: `"a.b"`, `app."a.b"`.
func ParseName(s string) (Name, error) {
	var parts []string
	rest := s
	for {
		var part string
		if strings.HasPrefix(rest, `"`) {
			i := 1
			for {
				j := strings.IndexByte(rest[i:], '"')
				if j < 0 {
					return Name{}, fmt.Errorf("table name %q: a quote is not closed", s)
				}
				part += rest[i : i+j]
				i += j + 1
				if !strings.HasPrefix(rest[i:], `"`) {
					break
				}
				part += `"`
				i++
			}
			rest = rest[i:]
			if rest != "" && rest[0] != '.' {
				return Name{}, fmt.Errorf("table name %q: a dot is missing after the quoted part", s)
			}
		} else {
			i := strings.IndexByte(rest, '.')
			if i < 0 {
				i = len(rest)
			}
			part, rest = rest[:i], rest[i:]
			// A name that no statement can have would leave the table bare.
			if strings.ContainsAny(part, "`\"'[]") {
				return Name{}, fmt.Errorf("table name %q: it has quotes in it; write it without, or a part of it in double quotes", s)
			}
			if strings.TrimSpace(part) != part {
				return Name{}, fmt.Errorf("table name %q: it begins or ends with a blank", s)
			}
		}
		if part == "" {
			return Name{}, fmt.Errorf("table name %q: empty, or a part of it is", s)
		}
		parts = append(parts, part)
		if rest == "" {
			break
		}
		rest = rest[1:]
	}
	switch len(parts) {
	case 1:
		return Name{Table: parts[0]}, nil
	case 2:
		return Name{Schema: parts[0], Table: parts[1]}, nil
	}
	return Name{}, fmt.Errorf("table name %q: more than a schema and a table", s)
}

// Span is a half-open range of byte offsets into the text. The zero Span
// stands for a clause that is not there.
type Span struct{ Start, End int }

// Of returns the part of the text that the span covers.
func (s Span) Of(text string) string { return text[s.Start:s.End] }

// IsZero reports whether the clause is not there.
func (s Span) IsZero() bool { return s == Span{} }

// Script is a text as a dialect reads it.
type Script struct {
	Statements []Statement
	// Anonymous is true when every parameter marker is a bare "?".
	Anonymous bool
}

// Statement is one statement of a text. Its span ends with its last token,
// before the semicolon and comments that follow.
type Statement struct {
	Span
	// Writes are the tables it writes when run, in the order of the text:
	// those of its CTEs too. EXPLAIN without ANALYZE writes nothing.
	Writes []Write
	// Params are its parameter markers in the order of the text.
	Params []Param
	// Tx is set for a statement that begins or ends a transaction or savepoint.
	Tx TxOp
}

// maxWrites is how many tables a statement may write by name.
const maxWrites = 10_000

// AddWrite adds to the Writes of a statement of the text, whose Span is set.
// When it is full, one more write, which cannot be fenced, stands for all that
// would follow.
func (st *Statement) AddWrite(text string, w Write) {
	switch n := len(st.Writes); {
	case n < maxWrites:
		st.Writes = append(st.Writes, w)
	case n == maxWrites:
		st.Writes = append(st.Writes, Write{
			TargetText: st.Of(text),
			Reason:     fmt.Sprintf("it writes more than %d tables", maxWrites),
			Hint:       "write fewer in one statement",
		})
	}
}

// Full reports whether AddWrite adds nothing any more.
func (st *Statement) Full() bool { return len(st.Writes) > maxWrites }

// Param is a parameter marker.
type Param struct {
	Span
	// Index is the position of the argument it takes, from 1, as the engine
	// numbers markers.
	Index int
	// Name is what sql.Named must say to fill it, or "".
	Name string
	// Number is the position that a driver may read in the marker itself,
	// whatever Index says; 0 when there is none.
	Number int
}

// TxVerb is what a statement does to the transaction.
type TxVerb int

// The verbs of transaction control.
const (
	TxNone TxVerb = iota
	TxBegin
	TxCommit
	TxRollback
	TxSavepoint  // Name is the savepoint
	TxRelease    // Name is the savepoint
	TxRollbackTo // Name is the savepoint
)

// TxOp is one act of transaction control. Name is folded as the engine
// compares savepoint names.
type TxOp struct {
	Verb TxVerb
	Name string
	// Chain is true when the end of the transaction begins the next: AND CHAIN.
	Chain bool
}

// Op is the kind of a write.
type Op int

// The kinds of writes. Other is any that cannot be fenced; its Refusal says why.
const (
	Other Op = iota
	Insert
	Update
	Delete
)

func (o Op) String() string {
	return [...]string{"statement", "INSERT", "UPDATE", "DELETE"}[o]
}

// Write is one table that a statement writes, and where its clauses stand.
// All spans begin and end at token borders; all places (…At) follow a token,
// so that text spliced in there is read as part of the clause.
type Write struct {
	Op     Op
	Target Name
	// TargetText is the table's name as written, with its schema. An Other
	// write with a zero Target runs the text in TargetText (the body of a DO,
	// say): it counts as a write of every table whose name occurs there, and
	// of all tables if the text is Obscured.
	TargetText string
	// Ref is what qualifies the target's columns in an expression, as it must
	// be written: the alias if there is one, else the table's name.
	Ref string

	// Reason and Hint, when set, say that this form of write can never be
	// fenced, and what to write instead ([HintUnfenced] where nothing can be).
	Reason, Hint string

	// Nested is true inside a CTE: the statement's count and rows are not this write's.
	Nested bool
	// Joined is true when other tables take part (FROM, USING, JOIN) in an UPDATE or DELETE.
	Joined bool
	// Limited is true with an ORDER BY or a LIMIT of an UPDATE's or DELETE's own.
	Limited bool

	// Set are the assignments of an UPDATE, or of an INSERT … SET. SetAt
	// follows the last one. In an UPDATE of several tables only those of this
	// target are listed, and QualifySet is true: a column assigned must be
	// qualified with Ref.
	Set        []Assignment
	SetAt      int
	QualifySet bool

	// Where is the condition of an UPDATE or DELETE, without the keyword;
	// WhereAt is where " WHERE …" goes when there is none.
	Where   Span
	WhereAt int
	// Conjuncts are the parts of Where that AND joins at its top level
	// (through parentheses too).
	Conjuncts []Conjunct

	// HasColumns is true when an INSERT has a column list; Columns are its
	// names and ColumnsAt follows the last one. Without a list ColumnsAt is
	// where " (…)" goes.
	HasColumns bool
	Columns    []string
	ColumnsAt  int
	// Rows are the rows of VALUES and the select lists of an INSERT.
	Rows []Row
	// DefaultValues covers the words DEFAULT VALUES.
	DefaultValues Span
	// Upserts are the ON CONFLICT DO UPDATE and ON DUPLICATE KEY UPDATE
	// clauses; a DO NOTHING changes no row and is left out.
	Upserts []Upsert

	// ReturningRef is what qualifies the target's columns in RETURNING, where
	// that is not Ref.
	ReturningRef string
	// Returning are the columns of the statement's own RETURNING clause, and
	// ReturningAt follows the last one; without a clause ReturningAt is where
	// " RETURNING …" goes.
	Returning   []Span
	ReturningAt int

	// With, From and Tail are the parts of a DELETE from which the SELECT that
	// reads its rows' fences is made: what precedes the verb, the table references
	// without FROM, and ORDER BY and LIMIT. Set where DeleteGuard asks for it.
	With, From, Tail Span
}

// Row is a row of VALUES, or a select list of INSERT … SELECT.
type Row struct {
	// Values are the expressions.
	Values []Span
	// Open is true when one of them is a star, so that their number is not
	// the number of columns.
	Open bool
	// At follows the last one. In an empty row it follows the parenthesis.
	At int
	// Select is true for a row of a query: a select list, or VALUES that is
	// more than the rows to insert. A value in it does not get its column's type.
	Select bool
}

// Assignment is one element of a SET list.
type Assignment struct {
	Span
	// Columns are the names assigned; more than one in (a, b) = (…).
	Columns []string
	// Value is the expression assigned.
	Value Span
}

// Upsert is one DO UPDATE clause.
type Upsert struct {
	Set   []Assignment
	SetAt int
}

// Conjunct is a part of a condition.
type Conjunct struct {
	Span
	// Column is the target's column when the conjunct is "column = value" with
	// a value that is a parameter, or a literal that means one row whatever
	// the column's type; else "". It may be left out where other tables take part.
	Column string
	// Param is the Index of the parameter, or 0 for a literal.
	Param int
}

// HintUnfenced is the Hint for what only administration has a reason to do.
const HintUnfenced = "for administration send it with fencedsql.Unfenced(ctx)"

// HasPrefixFold reports whether the text begins with a prefix in ASCII,
// whatever the case of the letters.
func HasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

var registry struct {
	sync.RWMutex
	byName map[string]Dialect
}

// Register makes a dialect known. It is called by the dialects' own packages
// and panics on nil and on a name that is taken.
func Register(d Dialect) {
	if d == nil {
		panic("dialects: Register of nil")
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.byName == nil {
		registry.byName = map[string]Dialect{}
	}
	if _, taken := registry.byName[d.Name()]; taken {
		panic("dialects: Register called twice for " + d.Name())
	}
	registry.byName[d.Name()] = d
}

// Names lists the dialects that are linked in.
func Names() []string {
	registry.RLock()
	defer registry.RUnlock()
	names := make([]string, 0, len(registry.byName))
	for n := range registry.byName {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Get returns the dialect of that name; the error names the import to add.
func Get(name string) (Dialect, error) {
	registry.RLock()
	defer registry.RUnlock()
	if d, ok := registry.byName[name]; ok {
		return d, nil
	}
	return nil, missing(name)
}

// homes are the engines that this module has dialects for, with their drivers:
// the names under which they are registered with database/sql, and their Go
// types as reflect prints them. Known without linking any of them, so that an
// error can name the import.
var homes = []struct {
	dialect string
	drivers []string
}{
	{"sqlite", []string{"sqlite3", "sqlite", "sqlite3.SQLiteDriver", "sqlite.Driver"}},
	{"postgres", []string{"pgx", "pgx/v5", "postgres", "stdlib.Driver", "pq.Driver", "pgdriver.Driver"}},
	{"mysql", []string{"mysql", "mysql.MySQLDriver"}},
}

func missing(name string) error {
	for _, h := range homes {
		if h.dialect == name {
			return fmt.Errorf(`dialect %q is not linked in: add import _ "github.com/fencedsql/fencedsql/dialects/%s"`, name, name)
		}
	}
	return fmt.Errorf("dialect %q is not known: this module has sqlite, postgres and mysql", name)
}

// For returns the dialect of a driver, by the name it is registered under
// with database/sql or else by its Go type; the error names the import to add.
func For(driverName string, drv driver.Driver) (Dialect, error) {
	names := []string{driverName}
	if drv != nil {
		names = append(names, strings.TrimPrefix(reflect.TypeOf(drv).String(), "*"))
	}
	for _, n := range names {
		for _, h := range homes {
			if slices.Contains(h.drivers, n) {
				return Get(h.dialect)
			}
		}
	}
	if driverName == "" {
		driverName = names[len(names)-1]
	}
	return nil, fmt.Errorf("no dialect is known for driver %q: name one with fencedsql.WithDialect", driverName)
}
