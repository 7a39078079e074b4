package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/sqlc-dev/oliphant"
	"github.com/sqlc-dev/oliphant/ast"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

func TestRegistered(t *testing.T) {
	d, err := dialects.For("pgx", nil)
	if err != nil || d.Name() != "postgres" {
		t.Fatalf("%v, %v", d, err)
	}
}

func TestMatches(t *testing.T) {
	long := strings.Repeat("a", 62)
	for _, c := range []struct {
		registered, written string
		want                bool
	}{
		{"chats", "chats", true},
		{"Chats", "chats", true},  // registered as a program writes it
		{"Chats", "Chats", true},  // registered as the catalog has it
		{"chats", "Chats", false}, // "Chats" is another table
		{"chats", "chat", false},
		{"app.chats", "chats", true},
		{"chats", "app.chats", true},
		{"app.chats", "app.chats", true},
		{"App.chats", "app.chats", true},
		{"app.chats", "web.chats", false},
		{"app.chats", "app.users", false},
		{`"a.b"`, `"a.b"`, true},
		{long + "bcd", long + "b", true}, // both are read as the first 63 bytes
		{long + "éé", long, true},        // and no character is cut in two
		{long + "c", long + "d", false},
		{"Äpfel", "Äpfel", true},
		{"Äpfel", "äpfel", true}, // a single-byte encoding folds it
		{"äpfel", "apfel", false},
	} {
		r, err1 := dialects.ParseName(c.registered)
		w, err2 := dialects.ParseName(c.written)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if got := (dialect{}).Matches(r, w); got != c.want {
			t.Errorf("registered %s, written %s: %v", c.registered, c.written, got)
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"fence", "fence", true}, {"Fence", "fence", false}, {"fence", "Fence", false}, {"fence", "fences", false},
		{long + "bcd", long + "b", true},
	} {
		if got := (dialect{}).SameColumn(c.a, c.b); got != c.want {
			t.Errorf("columns %s and %s: %v", c.a, c.b, got)
		}
	}
}

func TestObscured(t *testing.T) {
	for text, want := range map[string]bool{
		`UPDATE U&"\0063hats" SET v = 1`:     true,
		`UPDATE u&"\0063hats" SET v = 1`:     true,
		`UPDATE t SET a = b & c AND u & "d"`: false,
		`UPDATE t SET a = U&'\0063hats'`:     false,
		`& U&`:                               false,
		`a & b & U&"x"`:                      true,
		``:                                   false,
	} {
		if got := (dialect{}).Obscured(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestQuote(t *testing.T) {
	for name, want := range map[string]string{
		"fence": "fence", "_a1": "_a1", "Fence": `"Fence"`, "1a": `"1a"`, "a b": `"a b"`, `a"b`: `"a""b"`,
		"select": `"select"`, "user": `"user"`, "key": "key", "é": `"é"`, "a$": `"a$"`, "": `""`,
	} {
		if got := (dialect{}).Quote(name); got != want {
			t.Errorf("%s is quoted as %s", name, got)
		}
	}
}

// TestReserved holds the list of keywords to the parser's.
func TestReserved(t *testing.T) {
	word := regexp.MustCompile(`^[A-Z_]+$`)
	keywords := 0
	for _, name := range ast.Token_name {
		if !word.MatchString(name) || strings.HasSuffix(name, "_LA") {
			continue
		}
		name = strings.ToLower(strings.TrimSuffix(name, "_P"))
		scan, err := oliphant.Scan(name)
		if err != nil || len(scan.Tokens) != 1 {
			continue
		}
		want := false
		switch scan.Tokens[0].KeywordKind {
		case ast.KeywordKind_NO_KEYWORD:
			continue
		case ast.KeywordKind_UNRESERVED_KEYWORD:
		default:
			want = true
		}
		keywords++
		if reserved[name] != want {
			t.Errorf("%s: reserved is %v, and the parser calls it %v", name, reserved[name], scan.Tokens[0].KeywordKind)
		}
	}
	if keywords < 400 {
		t.Errorf("only %d keywords were looked at", keywords)
	}
}

func TestAssert(t *testing.T) {
	d := dialect{}
	for enc, want := range map[lease.Encoding]string{
		lease.Text:  `CASE WHEN t.fence < $2 THEN $1 ELSE ('fencedsql:' || coalesce(t.fence::text, 'NULL'))::int::text END`,
		lease.Int64: `CASE WHEN t.fence < $2 THEN $1 ELSE ('fencedsql:' || coalesce(t.fence::text, 'NULL'))::int::bigint END`,
	} {
		got := d.Assert("t.fence", d.Placeholder(2), d.Placeholder(1), enc)
		if got != want {
			t.Errorf("%v: %s", enc, got)
		}
	}
}

// pgError is what pgconn.PgError and lib/pq's Error have in common.
type pgError struct{ code, message string }

func (e *pgError) Error() string    { return "ERROR: " + e.message + " (SQLSTATE " + e.code + ")" }
func (e *pgError) SQLState() string { return e.code }

func TestRefused(t *testing.T) {
	f := lease.Fence{Epoch: 1, Count: 7}
	invalid := func(value string) error {
		return fmt.Errorf("insert: %w", &pgError{"22P02", "ungültige Eingabesyntax für Typ integer: »" + value + "«"})
	}
	for name, c := range map[string]struct {
		err            error
		enc            lease.Encoding
		stored         lease.Fence
		known, refused bool
	}{
		"text":             {invalid("fencedsql:" + f.Text()), lease.Text, f, true, true},
		"int64":            {invalid("fencedsql:42"), lease.Int64, lease.Fence{Count: 42}, true, true},
		"no fence":         {invalid("fencedsql:zzz"), lease.Text, lease.Fence{}, true, true},
		"too large":        {invalid("fencedsql:" + strings.Repeat("9", 40)), lease.Text, lease.Fence{}, true, true},
		"of a letter":      {fmt.Errorf("insert: %w", fieldError{'C': "22P02", 'M': "fencedsql:" + f.Text()}), lease.Text, f, true, true},
		"another letter":   {fieldError{'C': "23505", 'M': "fencedsql:" + f.Text()}, lease.Text, lease.Fence{}, false, false},
		"another value":    {invalid("abc"), lease.Text, lease.Fence{}, false, false},
		"another state":    {&pgError{"23505", `duplicate key "fencedsql:1"`}, lease.Text, lease.Fence{}, false, false},
		"not the server's": {errors.New("22P02 fencedsql:1"), lease.Text, lease.Fence{}, false, false},
		"none":             {nil, lease.Text, lease.Fence{}, false, false},
	} {
		stored, known, refused := dialect{}.Refused(c.err, "fence", c.enc)
		if stored != c.stored && known || known != c.known || refused != c.refused {
			t.Errorf("%s: %v, known %v, refused %v", name, stored, known, refused)
		}
	}
}

// fieldError is an error that tells the fields of the server's message.
type fieldError map[byte]string

func (e fieldError) Error() string       { return e['M'] }
func (e fieldError) Field(b byte) string { return e[b] }

// answers gives prepared rows to each query in turn.
type answers struct {
	rows  [][][]driver.Value
	err   error
	texts []string
	args  [][]driver.Value
}

func (a *answers) Query(_ context.Context, text string, args ...driver.Value) ([][]driver.Value, error) {
	a.texts = append(a.texts, text)
	a.args = append(a.args, args)
	if len(a.texts) > len(a.rows) {
		return nil, a.err
	}
	return a.rows[len(a.texts)-1], nil
}

func TestMode(t *testing.T) {
	row := func(values ...driver.Value) *answers { return &answers{rows: [][][]driver.Value{{values}}} }
	for name, c := range map[string]struct {
		q    *answers
		want dialects.Mode
		err  string
	}{
		"default":   {row("on", "UTF8"), 0, ""},
		"bytes":     {row([]byte("on"), []byte("UTF8")), 0, ""},
		"off":       {row("off", "LATIN1"), backslashes, ""},
		"ascii":     {row("on", "SQL_ASCII"), 0, ""},
		"euc":       {row("on", "EUC_JIS_2004"), 0, ""},
		"sjis":      {row("on", "SJIS"), 0, "client_encoding SJIS"},
		"shift jis": {row("on", "SHIFT_JIS_2004"), 0, "client_encoding"},
		"big5":      {row("on", "BIG5"), 0, "client_encoding"},
		"gbk":       {row("on", "GBK"), 0, "client_encoding"},
		"gb18030":   {row("on", "GB18030"), 0, "client_encoding"},
		"uhc":       {row("on", "UHC"), 0, "client_encoding"},
		"johab":     {row("on", "JOHAB"), 0, "client_encoding"},
		"no answer": {&answers{}, 0, "does not tell"},
		"an error":  {&answers{err: errors.New("gone")}, 0, "gone"},
	} {
		got, err := dialect{}.Mode(t.Context(), c.q)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestSetsMode(t *testing.T) {
	for text, want := range map[string]bool{
		"SET standard_conforming_strings = off":        true,
		"set local Standard_Conforming_Strings to off": true,
		`SET "client_encoding" TO 'SJIS'`:              true,
		"RESET ALL":                                    true,
		"reset /* */ all":                              true,
		"RESET client_encoding":                        true,
		"RESET search_path":                            false,
		"DISCARD ALL":                                  true,
		"DISCARD PLANS":                                false,
		"SET NAMES 'LATIN1'":                           true,
		"set session names default":                    true,
		"SET/**/NAMES 'x'":                             true,
		"SELECT 1; SET NAMES 'x'":                      true,
		"UPDATE t SET names = $1":                      false,
		"UPDATE t SET a = 1, names = $1":               false,
		"SELECT names FROM t":                          false,
		"SELECT set_config($1, $2, false)":             true,
		"SELECT set_config('client_' || 'encoding', 'SJIS', false)":    true,
		"SELECT set_config('app.user', $1, true)":                      false,
		"SELECT set_config ( 'app.user' , $1, true)":                   false,
		"SELECT set_config('client_encoding', $1, true)":               true,
		"UPDATE pg_settings SET setting = $1 WHERE name = $2":          true,
		`SET U&"client\005Fencoding" = 'SJIS'`:                         true,
		"UPDATE chats SET summary = $1 WHERE id = $2":                  false,
		"SELECT reset, discard FROM offset_names WHERE set_configs(1)": true,
		"":  false,
		"s": false,
	} {
		if got := (dialect{}).SetsMode(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
