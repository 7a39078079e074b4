// Package postgres is the dialect of PostgreSQL, read with the pure Go port of
// its own grammar, github.com/sqlc-dev/oliphant. It serves every database/sql
// driver of PostgreSQL and imports none.
//
// A program that links this package cannot link github.com/pganalyze/pg_query_go
// as well: both register the same protobuf names, which panics at start-up.
package postgres

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

func init() { dialects.Register(dialect{}) }

type dialect struct{}

func (dialect) Name() string { return "postgres" }

// Obscured looks for U&"…", where \0063 may stand for a letter.
func (dialect) Obscured(text string) bool {
	for {
		i := strings.IndexByte(text, '&')
		if i < 0 {
			return false
		}
		if i > 0 && text[i-1]|0x20 == 'u' && strings.HasPrefix(text[i+1:], `"`) {
			return true
		}
		text = text[i+1:]
	}
}

// Matches compares a registered name with one that the engine has folded. A
// program may register a name as it writes it, without quotes, or as the
// catalog has it: either matches.
func (dialect) Matches(registered, written dialects.Name) bool {
	return registered.Matches(written, sameName)
}

// SameColumn is exact: a table may have columns id and "Id", and a condition
// on one does not pin the other. Check holds the registered columns to their
// names in the catalog.
func (dialect) SameColumn(a, b string) bool { return clip(a) == clip(b) }

// sameName reports whether a name as a program registers it may mean the one
// that the engine reads. The engine folds ASCII letters; others it folds by
// its locale under a single-byte encoding, which counts as folded: doubt is a
// match.
func sameName(registered, folded string) bool {
	registered, folded = clip(registered), clip(folded)
	if registered == folded {
		return true
	}
	lower, ascii := foldASCII(registered)
	return lower == folded || !ascii && strings.EqualFold(registered, folded)
}

// nameLen is NAMEDATALEN - 1: the engine reads no more bytes of a name.
const nameLen = 63

// clip truncates a name as the engine does, between characters.
func clip(name string) string {
	if len(name) <= nameLen {
		return name
	}
	i := nameLen
	for i > 0 && !utf8.RuneStart(name[i]) {
		i--
	}
	return name[:i]
}

// foldASCII lowers the ASCII letters of a name and reports whether it has no others.
func foldASCII(name string) (string, bool) {
	ascii, lower := true, true
	for i := range len(name) {
		ascii = ascii && name[i] < utf8.RuneSelf
		lower = lower && !('A' <= name[i] && name[i] <= 'Z')
	}
	if lower {
		return name, ascii
	}
	b := []byte(name)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b), ascii
}

func (dialect) Quote(name string) string { return quote(name) }

// quote leaves plain what the engine reads as it is, like its own quote_ident.
func quote(name string) string {
	plain := name != "" && !reserved[name]
	for i := range len(name) {
		c := name[i]
		plain = plain && ('a' <= c && c <= 'z' || c == '_' || i > 0 && isDigit(c))
	}
	if plain {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// reserved are the keywords that a name must be quoted for: all but those that
// PostgreSQL 18 calls unreserved.
var reserved = func() map[string]bool {
	words := strings.Fields(`
		all analyse analyze and any array as asc asymmetric authorization
		between bigint binary bit boolean both
		case cast char character check coalesce collate collation column concurrently constraint create cross
		current_catalog current_date current_role current_schema current_time current_timestamp current_user
		dec decimal default deferrable desc distinct do
		else end except exists extract
		false fetch float for foreign freeze from full
		grant greatest group grouping
		having
		ilike in initially inner inout int integer intersect interval into is isnull
		join json json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar
		json_serialize json_table json_value
		lateral leading least left like limit localtime localtimestamp
		merge_action
		national natural nchar none normalize not notnull null nullif numeric
		offset on only or order out outer overlaps overlay
		placing position precision primary
		real references returning right row
		select session_user setof similar smallint some substring symmetric system_user
		table tablesample then time timestamp to trailing treat trim true
		union unique user using
		values varchar variadic verbose
		when where window with
		xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable`)
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}()

func (dialect) Placeholder(n int) string { return "$" + strconv.Itoa(n) }

// Cast gives a marker a type: the engine takes one in a select list for text.
// Elsewhere it takes the type of what a marker is assigned to or compared with
// (https://www.postgresql.org/docs/current/typeconv.html).
func (dialect) Cast(marker string, enc lease.Encoding) string {
	return marker + "::" + typeOf(enc)
}

func typeOf(enc lease.Encoding) string {
	if enc == lease.Int64 {
		return "bigint"
	}
	return "text"
}

// mark precedes the stored fence in the text of the error that Assert raises.
const mark = "fencedsql:"

// Assert raises with a cast that fails: "invalid input syntax for type integer:
// "fencedsql:0…07"", SQLSTATE 22P02, whose words depend on the server's
// language and whose value does not. The cast depends on the row, so that it
// is not evaluated before. A NULL, which a checked column does not hold until
// someone changes it, raises too.
func (dialect) Assert(column, bound, fence string, enc lease.Encoding) string {
	return "CASE WHEN " + column + " < " + bound + " THEN " + fence +
		" ELSE ('" + mark + "' || coalesce(" + column + "::text, 'NULL'))::int::" + typeOf(enc) + " END"
}

func (dialect) DeleteGuard() dialects.DeleteGuard { return dialects.DeleteReturning }

func (dialect) LooseKeys() bool { return false }

func (dialect) ShortRows() bool { return true }

func (dialect) Lock() string { return " FOR UPDATE" }

// Newest is empty: a write whose snapshot is older than the row fails with
// 40001, and under READ COMMITTED a read has a later one. A lock would wait
// for a row that the write did not match, and takes the right to UPDATE.
func (dialect) Newest() string { return "" }

// serverError is the server's own error, of any driver that tells its SQLSTATE:
// as pgconn's and lib/pq's do, or by its letter in the protocol, as bun's does.
func serverError(err error) (state, text string) {
	var s interface {
		error
		SQLState() string
	}
	if errors.As(err, &s) {
		return s.SQLState(), s.Error()
	}
	var f interface {
		error
		Field(byte) string
	}
	if errors.As(err, &f) {
		return f.Field('C'), f.Error()
	}
	return "", ""
}

func (dialect) Refused(err error, _ string, enc lease.Encoding) (stored lease.Fence, known, refused bool) {
	state, text := serverError(err)
	_, digits, found := strings.Cut(text, mark)
	if state != "22P02" || !found {
		return lease.Fence{}, false, false
	}
	n := 0
	for n < len(digits) && isDigit(digits[n]) {
		n++
	}
	if stored, err = enc.Decode(digits[:n]); err != nil {
		stored = lease.Fence{}
	}
	return stored, true, true
}

// MayCommit is never true: a procedure that commits cannot be called in a transaction.
func (dialect) MayCommit(string) bool { return false }

// CommitEnds: what the server refuses to commit it rolls back.
func (dialect) CommitEnds(err error) bool {
	state, _ := serverError(err)
	return state != "" && !strings.HasPrefix(state, "26") // a prepared COMMIT that is no longer there, and was not run
}

// LostTx: PostgreSQL keeps a failed transaction open until it is ended.
func (dialect) LostTx() string { return "" }
