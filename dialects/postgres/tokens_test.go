package postgres

import (
	"strings"
	"testing"

	"github.com/sqlc-dev/oliphant"
)

// FuzzTokens holds the tokens to those of the parser's own scanner, for every
// text that the parser takes: another border would be a place inside a token.
func FuzzTokens(f *testing.F) {
	for _, b := range readBlocks(f) {
		f.Add(b.text)
	}
	for _, text := range corpus(f) {
		f.Add(text)
	}
	for _, text := range []string{
		"SELECT 1.5e10, .5, 1., 1..2, 0x1F, 0o17, 0b101, 1_000.5_0e1_0, $1, $12 $3",
		"SELECT a+-b, a<>-1, a->>'b', a @-- comment\n b, a */* c */ b, a<=b, a!=b, a=>b, a:=b, a::b, a[1:2], a !-b, a %-b",
		"SELECT E'\\'', e'a\\\\', 'a''b', B'01', x'ff', N'n', U&'\\0061', U&\"\\0061\" UESCAPE '!', u&a, $a$ $b$ $a$, $$ $ $$",
		"SELECT 'a'\n  'b', 'a' /* no */ , E'a'\r\n'\\'b', '' , \"\"\"\"",
		"/* a /* b */ c */ SELECT 1 -- end",
		"SELECT \"a\"\"b\", é, a$b, _x, \x0b1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.IndexByte(text, 0) >= 0 || len(text) > 2000 {
			return
		}
		toks, _, err := lex(text)
		if err == errNested {
			return
		}
		if _, perr := parse(text, 0); perr != nil {
			return
		}
		if err != nil {
			t.Fatalf("%v, although the parser takes %q", err, text)
		}
		scan, err := oliphant.Scan(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range scan.Tokens {
			if want.Token == oliphant.Token_SQL_COMMENT || want.Token == oliphant.Token_C_COMMENT {
				continue
			}
			if len(toks) == 0 || toks[0].start != want.Start || toks[0].end != want.End {
				t.Fatalf("%q: %v at %d to %d is read otherwise: %+v", text, want.Token, want.Start, want.End, toks)
			}
			got := toks[0]
			toks = toks[1:]
			word := text[want.Start:want.End]
			if k, ok := keywords[strings.ToLower(word)]; ok != (got.kind >= kwAll) || ok && k != got.kind {
				t.Fatalf("%q: %q is of kind %d", text, word, got.kind)
			}
			if (want.Token == oliphant.Token_PARAM) != (got.kind == param) ||
				(want.Token == oliphant.Token_UIDENT) != (got.kind == uword) ||
				(want.Token == oliphant.Token('=')) != (got.kind == equals) {
				t.Fatalf("%q: %v %q is of kind %d", text, want.Token, word, got.kind)
			}
		}
		if len(toks) > 0 {
			t.Fatalf("%q: tokens are left: %+v", text, toks)
		}
	})
}

func TestKeywordNames(t *testing.T) {
	if n := int(kwWith - kwAll + 1); len(keywordNames) != n {
		t.Fatalf("%d names for %d keywords", len(keywordNames), n)
	}
	for name, want := range map[string]kind{"all": kwAll, "json_object": kwJSONObject, "on": kwOn, "with": kwWith} {
		if got := keyword(strings.ToUpper(name)); got != want {
			t.Errorf("%s is %d, not %d", name, got, want)
		}
	}
}

// TestOperators: the end of an operator is looked for in all that stands
// behind it, which must not be done for each of a long run of them.
func TestOperators(t *testing.T) {
	for _, part := range []string{"+-", "-/**/", "*-/*+*/"} {
		for n, want := range map[int]error{100: nil, 1 << 16: errOperators} {
			if _, _, err := lex("SELECT 1 " + strings.Repeat(part, n) + " 1"); err != want {
				t.Errorf("%d times %s: %v, want %v", n, part, err, want)
			}
		}
	}
}
