package mysql

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser"

	"github.com/fencedsql/fencedsql/dialects"
)

// tokens shows what lex makes of a text: kind and text of each token.
func tokens(text string, mode dialects.Mode) string {
	s, err := lex(text, mode)
	if err != nil {
		return err.Error()
	}
	var out []string
	for i, t := range s.toks {
		out = append(out, [...]string{"w", "n", "s", "#", "m", "v", "o"}[t.kind]+":"+s.of(i))
	}
	return strings.Join(out, " ")
}

func TestLex(t *testing.T) {
	for _, c := range []struct {
		text string
		mode dialects.Mode
		want string
	}{
		{"a 1a 1e5 1e 1.5e-3 .5 1. 0x1F 0xG 0b01 0b2 $a a$ é", 0, "w:a w:1a #:1e5 w:1e #:1.5e-3 #:.5 #:1. #:0x1F w:0xG #:0b01 w:0b2 w:$a w:a$ w:é"},
		{"t.1a t.1 t.1e5 t.set set.t `t`.1 t .5 1.a", 0, "n:t o:. n:1a n:t o:. n:1 n:t o:. n:1e5 n:t o:. n:set n:set o:. n:t n:`t` o:. n:1 w:t #:.5 #:1. w:a"},
		{"'a''b' 'a\\'b' \"a'b\" `a``b`", 0, "s:'a''b' s:'a\\'b' s:\"a'b\" n:`a``b`"},
		{"'a\\' \"b\"", noBackslashEscapes, "s:'a\\' s:\"b\""},
		{"\"a\\\" 'b'", ansiQuotes, "n:\"a\\\" s:'b'"},
		{"N'a' x'41' _utf8'b'", 0, "w:N s:'a' w:x s:'41' w:_utf8 s:'b'"},
		{"@a @@b @@session.c @'d e' @`f g` @a.b a:=1", 0, "v:@a v:@@b v:@@session.c v:@'d e' v:@`f g` v:@a.b w:a o::= #:1"},
		{"a<=>b a->>'c' a->'d' a||b a&&b a<<b a>=b a!=b a<>b a- -b", 0,
			"w:a o:<=> w:b w:a o:->> s:'c' w:a o:-> s:'d' w:a o:|| w:b w:a o:&& w:b w:a o:<< w:b w:a o:>= w:b w:a o:!= w:b w:a o:<> w:b w:a o:- o:- w:b"},
		{"a--b -- c\n--\td\n--", 0, "w:a o:- o:- w:b"},
		{"a # b\nc #", 0, "w:a w:c"},
		{"a/*b*/c/**/d/***/e/*/*/f", 0, "w:a w:c w:d w:e w:f"},
		{"select */**/ from t", 0, "w:select o:* w:from w:t"},
		{`\N ? '?' -- ?`, 0, `#:\N m:? s:'?'`},
		{"a\v\f\r\nb", 0, "w:a w:b"},
		{"'a", 0, "a quote is not closed at byte 0"},
		{"'a\\'", 0, "a quote is not closed at byte 0"},
		{"`a", 0, "a quote is not closed at byte 0"},
		{"a /* b", 0, "a comment is not closed at byte 2"},
		{"a /*/", 0, "a comment is not closed at byte 2"},
		{"a /*!b*/", 0, "an executable comment /*! at byte 2"},
		{"a /*M!b*/", 0, "an executable comment /*M! at byte 2"},
		{"a /*T!b*/", 0, "an executable comment /*T! at byte 2"},
		{"a /*m!b*/ /*Mb*/", 0, "w:a"},
		{"select /*+ BKA(`*/`) */ 1", 0, "an optimizer hint with a quote that is not closed at byte 7"},
		{"a (b", 0, "a parenthesis is not closed at byte 2"},
		{"a) b", 0, "a parenthesis closes that was not opened at byte 1"},
		{"a @", 0, "a variable without a name at byte 2"},
		{"a@@+b", 0, "a variable without a name at byte 1"},
		{"a \x01", 0, "a byte that is not SQL at byte 2"},
		{"a \\b", 0, "a byte that is not SQL at byte 2"},
	} {
		if got := tokens(c.text, c.mode); got != c.want {
			t.Errorf("%q\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

// scanned gives the offsets at which the parser's own scanner finds tokens.
// The type of its tokens cannot be named, but a type parameter takes it.
func scanned(text string) []int {
	return starts(parser.NewScanner(text).Lex)
}

func starts[T any](lex func(*T) int) []int {
	var out []int
	for {
		v := new(T)
		if lex(v) == 0 {
			return out
		}
		out = append(out, int(reflect.ValueOf(v).Elem().FieldByName("offset").Int()))
	}
}

// TestLexLikeParser compares our tokens with those of the parser's scanner, in
// texts that both read: they must begin at the same bytes.
func TestLexLikeParser(t *testing.T) {
	n := 0
	for _, c := range readCases(t, "testdata/parse.txt") {
		s, err := lex(c.text, c.mode)
		if err != nil || len(s.toks) == 0 || c.mode != 0 {
			continue
		}
		cleaned, err := s.clean(0, len(s.toks), nil)
		if err != nil {
			t.Error(err)
			continue
		}
		base := s.toks[0].Start
		if len(cleaned) != s.toks[len(s.toks)-1].End-base {
			t.Errorf("cleaned to another length: %q", cleaned)
		}
		if strings.Contains(c.text, "/*+") || cleaned != c.text[base:base+len(cleaned)] && strings.Contains(cleaned, "(SELECT 1 ") {
			continue // a hint is a token there, and JSON_TABLE is replaced
		}
		var want []int
		for i, tok := range s.toks {
			hex := tok.kind == str && s.is(i-1, "X", "B") && s.toks[i-1].End == tok.Start // one token there
			if !hex {
				want = append(want, tok.Start)
			}
		}
		if got := scanned(c.text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q\n got %v\nwant %v", c.text, got, want)
		}
		n++
	}
	if n < 100 {
		t.Errorf("only %d texts compared", n)
	}
}
