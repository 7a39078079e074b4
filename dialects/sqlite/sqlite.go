// Package sqlite is the dialect of SQLite, read with the pure Go parser
// github.com/sqlc-dev/meyer. It serves every database/sql driver of SQLite
// and imports none.
package sqlite

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/sqlc-dev/meyer/lexer"
	"github.com/sqlc-dev/meyer/token"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

func init() { dialects.Register(dialect{}) }

type dialect struct{}

func (dialect) Name() string { return "sqlite" }

// Obscured is never true: SQLite has four ways to quote a name, but none to
// escape a letter in it.
func (dialect) Obscured(string) bool { return false }

// Matches follows https://sqlite.org/lang_naming.html: a name without a schema
// may be in any of the attached databases, and case does not count.
func (dialect) Matches(registered, written dialects.Name) bool {
	return registered.Matches(written, strings.EqualFold)
}

func (dialect) SameColumn(a, b string) bool { return strings.EqualFold(a, b) }

// Quote leaves plain names plain: a name in double quotes that is no column
// would be read as a string (https://sqlite.org/quirks.html#dblquote).
func (dialect) Quote(name string) string {
	if plainName.MatchString(name) {
		if toks := lexer.Lex(name); toks[0].Kind == token.ID {
			return name
		}
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (dialect) Placeholder(n int) string { return "?" + strconv.Itoa(n) }

// Cast has nothing to do: values carry their own type.
func (dialect) Cast(marker string, _ lease.Encoding) string { return marker }

// mark precedes the stored fence in the text of the error that Assert raises.
const mark = "fencedsql:"

// Assert raises through json_extract: a path that does not begin with $ is an
// error that quotes the path. It is not a constraint violation, so that
// neither OR IGNORE nor ON CONFLICT swallows it. A NULL, which a checked
// column does not hold until someone changes it, raises too.
func (dialect) Assert(column, bound, fence string, _ lease.Encoding) string {
	return "CASE WHEN " + column + " < " + bound + " THEN " + fence +
		" ELSE json_extract('{}', '" + mark + "' || coalesce(" + column + ", 'NULL')) END"
}

func (dialect) DeleteGuard() dialects.DeleteGuard { return dialects.DeleteReturning }

func (dialect) LooseKeys() bool { return false }

func (dialect) ShortRows() bool { return false }

// Lock is empty: SQLite has one writer, and what it reads cannot change under it.
func (dialect) Lock() string { return "" }

func (dialect) Newest() string { return "" }

func (dialect) Refused(err error, _ string, enc lease.Encoding) (lease.Fence, bool, bool) {
	text := err.Error()
	// "bad JSON path: 'fencedsql:0…07'" since 3.39, "JSON path error near '…'" before.
	i := strings.Index(text, "'"+mark)
	if i < 0 || !strings.Contains(text, "JSON path") {
		return lease.Fence{}, false, false
	}
	digits := text[i+1+len(mark):]
	if j := strings.IndexByte(digits, '\''); j >= 0 {
		digits = digits[:j]
	}
	stored, err := enc.Decode(digits)
	if err != nil {
		stored = lease.Fence{}
	}
	return stored, true, true
}

func (dialect) MayCommit(string) bool { return false }

func (dialect) CommitEnds(error) bool { return false }

// LostTx: SQLite rolls a transaction back on its own when a write in it is
// interrupted or the disk is full (https://sqlite.org/lang_transaction.html),
// and what follows would run outside of it.
func (dialect) LostTx() string { return "BEGIN" }

func (dialect) Mode(context.Context, dialects.Querier) (dialects.Mode, error) { return 0, nil }

func (dialect) SetsMode(string) bool { return false }
