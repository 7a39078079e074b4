package mysql

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fencedsql/fencedsql/dialects"
)

// The parser tells what a statement says, but not where its clauses end, so
// tokens are read here, by the rules of the servers' own lexers
// (https://dev.mysql.com/doc/refman/8.0/en/language-structure.html and
// https://mariadb.com/kb/en/sql-language-structure/). The parser is then given
// only what was read here: see [source.clean].

type kind uint8

const (
	word     kind = iota // an unquoted word: a keyword or a name
	name                 // a word that can only be a name: quoted, or beside a dot
	str                  // a string literal, without its introducer
	number               //
	marker               // ?
	variable             // @x, @'x', @@x
	op                   // an operator or a punctuation mark
)

// token is one token of a text.
type token struct {
	dialects.Span
	kind kind
	// depth counts the parentheses around it. A parenthesis has the depth of
	// what is outside of it.
	depth int32
	// match is the index of a parenthesis's counterpart, and which parameter,
	// from 1, a marker is.
	match int32
}

// source is a text and its tokens. Ranges of tokens are half-open, [lo, hi).
type source struct {
	text string
	toks []token
	mode dialects.Mode
}

// What a text may cost the parser, which walks over its tree by recursion.
const (
	// maxDepth bounds the nesting of parentheses, and how many operators stand
	// in a row: both servers give up far below it (their stack is limited).
	maxDepth = 5000
	// maxLength bounds how deep the tree may be: a token may be a level of it,
	// at up to 170 bytes of stack, in what has no parentheses too (1 + 1 + …).
	maxLength = 2 << 20
)

// nesting keeps account of how deep a text goes.
type nesting struct {
	open      []level // the text itself, and the parentheses that are open
	operators int     // those that stand in a row
	length    int     // of the longest statement
}

type level struct {
	paren int // the token
	// length counts the tokens of the level, but for those in parentheses and
	// for commas, and below those of the longest parenthesis in it.
	length, below int
}

func (l level) whole() int { return l.length + l.below }

// add adds token t, the next of s.
func (n *nesting) add(s *source, t *token) error {
	t.depth = int32(len(n.open) - 1)
	in := &n.open[t.depth]
	if t.kind != op {
		n.operators = 0
		in.length++
		return nil
	}
	n.operators++
	switch s.text[t.Start] {
	case '(':
		if t.depth == maxDepth {
			return errorAt(fmt.Sprintf("more than %d parentheses in one another", maxDepth), t.Start)
		}
		n.open = append(n.open, level{paren: len(s.toks)})
	case ')':
		if t.depth == 0 {
			return errorAt("a parenthesis closes that was not opened", t.Start)
		}
		t.depth--
		t.match = int32(in.paren)
		s.toks[in.paren].match = int32(len(s.toks))
		out := &n.open[t.depth]
		out.below = max(out.below, in.whole())
		n.open = n.open[:t.depth+1]
	case ';':
		if t.depth == 0 {
			n.length = max(n.length, in.whole())
			*in = level{}
		}
	case ',', '.':
	default:
		in.length++
		if n.operators > maxDepth {
			return errorAt(fmt.Sprintf("more than %d operators in a row", maxDepth), t.Start)
		}
		return nil
	}
	n.operators = 0
	return nil
}

// end is called behind the last token of s.
func (n *nesting) end(s *source) error {
	last := n.open[len(n.open)-1]
	if len(n.open) > 1 {
		return errorAt("a parenthesis is not closed", s.toks[last.paren].Start)
	}
	if max(n.length, last.whole()) > maxLength {
		return fmt.Errorf("more than %d words in one expression or list", maxLength)
	}
	return nil
}

// lex reads all tokens of a text. Its errors quote nothing of it.
func lex(text string, mode dialects.Mode) (*source, error) {
	if len(text) > math.MaxInt32 {
		return nil, errors.New("the text is longer than 2 GB")
	}
	s := &source{text: text, mode: mode, toks: make([]token, 0, len(text)/5+4)}
	nested := nesting{open: make([]level, 1, 8)}
	var params int32
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == ' ' || '\t' <= c && c <= '\r':
			i++
			continue
		case c == '#':
			i = lineEnd(text, i)
			continue
		case c == '-' && dashComment(text[i:]):
			i = lineEnd(text, i)
			continue
		case c == '/' && strings.HasPrefix(text[i:], "/*"):
			end, err := comment(text, i)
			if err != nil {
				return nil, err
			}
			i = end
			continue
		}
		t := token{Span: dialects.Span{Start: i}}
		var err error
		switch {
		case wordByte(c) && (c < '0' || c > '9' || s.afterDot(i)):
			t.kind = word
			if t.End, err = s.word(i); err != nil {
				return nil, err
			}
			// Beside a dot a reserved word is a name.
			if s.afterDot(i) || t.End+1 < len(text) && text[t.End] == '.' && wordByte(text[t.End+1]) {
				t.kind = name
			}
		case '0' <= c && c <= '9', c == '.' && i+1 < len(text) && '0' <= text[i+1] && text[i+1] <= '9' && !s.afterName(i):
			if t.kind, t.End, err = s.number(i); err != nil {
				return nil, err
			}
		case c == '`', c == '"' && mode&ansiQuotes != 0:
			t.kind = name
			if t.End, err = s.quotes(i, false); err != nil {
				return nil, err
			}
			if t.End == t.Start+2 {
				return nil, errorAt("an empty name", i)
			}
			if bad := invalid(text[i:t.End], mode); bad >= 0 {
				return nil, errorAt(badBytes(mode), i+bad)
			}
		case c == '\'', c == '"':
			t.kind = str
			if t.End, err = s.quotes(i, mode&noBackslashEscapes == 0); err != nil {
				return nil, err
			}
		case c == '@':
			t.kind = variable
			if t.End, err = s.variable(i); err != nil {
				return nil, err
			}
		case c == '?':
			params++
			t.kind, t.End, t.match = marker, i+1, params
		case c == '\\' && strings.HasPrefix(text[i:], `\N`):
			t.kind, t.End = number, i+2 // NULL
		case c > ' ' && c < 0x7f && c != '\\':
			t.kind, t.End = op, i+operator(text[i:])
		default:
			return nil, errorAt("a byte that is not SQL", i)
		}
		if err := nested.add(s, &t); err != nil {
			return nil, err
		}
		if len(s.toks) == cap(s.toks) {
			// What follows has about as many tokens to the byte as what was read.
			s.toks = slices.Grow(s.toks, int(float64(len(s.toks))/float64(i)*float64(len(text)-i))+8)
		}
		s.toks = append(s.toks, t)
		i = t.End
	}
	if err := nested.end(s); err != nil {
		return nil, err
	}
	return s, nil
}

func errorAt(what string, offset int) error { return fmt.Errorf("%s at byte %d", what, offset) }

// lineEnd skips a comment to the end of its line, which is a line feed only.
func lineEnd(text string, i int) int {
	if j := strings.IndexByte(text[i:], '\n'); j >= 0 {
		return i + j + 1
	}
	return len(text)
}

// dashComment reports whether "--" begins a comment: only with white space, a
// control character or the end of the text behind it; "5--1" is 6.
func dashComment(rest string) bool {
	return strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' ' || rest[2] == 0x7f)
}

// comment skips a bracketed comment. One whose contents are run by some server
// is an error: what the text does would depend on the server's version.
func comment(text string, i int) (int, error) {
	for _, mark := range []string{"!", "M!", "T!"} {
		if strings.HasPrefix(text[i+2:], mark) {
			return 0, errorAt("an executable comment /*"+mark, i)
		}
	}
	j := strings.Index(text[i+2:], "*/")
	if j < 0 {
		return 0, errorAt("a comment is not closed", i)
	}
	end := i + 2 + j + 2
	// In a hint MySQL reads quoted names, whose end counts and not the "*/" in them.
	if text[i+2] == '+' {
		for _, q := range []string{"`", "'", `"`} {
			if strings.Count(text[i:end], q)%2 != 0 {
				return 0, errorAt("an optimizer hint with a quote that is not closed", i)
			}
		}
	}
	return end, nil
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// word skips a word.
func (s *source) word(i int) (int, error) {
	j := i
	for j < len(s.text) && wordByte(s.text[j]) {
		j++
	}
	if bad := invalid(s.text[i:j], s.mode); bad >= 0 {
		return 0, errorAt(badBytes(s.mode), i+bad)
	}
	return j, nil
}

// invalid is the offset of a byte that the server may not read as a letter, or -1.
func invalid(part string, mode dialects.Mode) int {
	for i := 0; i < len(part); {
		if part[i] < 0x80 {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(part[i:])
		if mode&notUTF8 != 0 || r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

func badBytes(mode dialects.Mode) string {
	if mode&notUTF8 != 0 {
		return "a name that is not ASCII on a connection whose character set is not UTF-8"
	}
	return "a name that is not UTF-8"
}

// afterDot reports whether byte i follows "name." without a gap.
func (s *source) afterDot(i int) bool {
	n := len(s.toks)
	return n > 0 && s.toks[n-1].kind == op && s.toks[n-1].End == i && s.text[i-1] == '.' && n > 1 &&
		s.toks[n-2].kind <= name && s.toks[n-2].End == i-1
}

// afterName reports whether byte i follows a name without a gap.
func (s *source) afterName(i int) bool {
	n := len(s.toks)
	return n > 0 && s.toks[n-1].kind <= name && s.toks[n-1].End == i
}

// number skips a number, or a name that begins with digits ("1a").
func (s *source) number(i int) (kind, int, error) {
	digits := func(j int) int {
		for j < len(s.text) && '0' <= s.text[j] && s.text[j] <= '9' {
			j++
		}
		return j
	}
	at := func(j int) byte {
		if j < len(s.text) {
			return s.text[j]
		}
		return 0
	}
	j := digits(i)
	if j == i+1 && s.text[i] == '0' && (at(j)|0x20 == 'x' || at(j) == 'b') {
		set := "01"
		if at(j) != 'b' {
			set = "0123456789abcdefABCDEF"
		}
		end, err := s.word(i)
		if err != nil || end == i+2 || strings.Trim(s.text[i+2:end], set) != "" {
			return word, end, err
		}
		return number, end, nil
	}
	if at(j) == '.' {
		j = digits(j + 1)
	} else if c := at(j); wordByte(c) && !(c|0x20 == 'e' && exponent(s.text[j:]) > 0) {
		end, err := s.word(i)
		return word, end, err
	}
	return number, j + exponent(s.text[min(j, len(s.text)):]), nil
}

// exponent is the length of the exponent that the rest begins with, or 0.
func exponent(rest string) int {
	if len(rest) < 2 || rest[0]|0x20 != 'e' {
		return 0
	}
	j := 1
	if rest[j] == '+' || rest[j] == '-' {
		j++
	}
	k := j
	for k < len(rest) && '0' <= rest[k] && rest[k] <= '9' {
		k++
	}
	if k == j {
		return 0
	}
	return k
}

// quotes skips a string or a quoted name, in which the quote is doubled and,
// in strings, a backslash takes the next byte's meaning.
func (s *source) quotes(i int, escapes bool) (int, error) {
	q := s.text[i]
	for j := i + 1; j < len(s.text); j++ {
		switch c := s.text[j]; {
		case c == '\\' && escapes:
			j++
		case c == q && j+1 < len(s.text) && s.text[j+1] == q:
			j++
		case c == q:
			return j + 1, nil
		}
	}
	return 0, errorAt("a quote is not closed", i)
}

// variable skips @name, @'name', @`name`, @@name and @@scope.name.
func (s *source) variable(i int) (int, error) {
	j := i + 1
	if j < len(s.text) && s.text[j] == '@' {
		j++
	}
	if j < len(s.text) && (s.text[j] == '\'' || s.text[j] == '"' || s.text[j] == '`') {
		return s.quotes(j, s.text[j] != '`' && s.mode&noBackslashEscapes == 0)
	}
	at := j
	for j < len(s.text) && (wordByte(s.text[j]) || s.text[j] == '.') {
		j++
	}
	if j == at {
		return 0, errorAt("a variable without a name", i)
	}
	if bad := invalid(s.text[i:j], s.mode); bad >= 0 {
		return 0, errorAt(badBytes(s.mode), i+bad)
	}
	return j, nil
}

// operator is the length of the operator that the rest begins with.
func operator(rest string) int {
	if strings.IndexByte("<>!:|&-", rest[0]) < 0 {
		return 1
	}
	for _, o := range [...]string{"<=>", "->>", "<=", ">=", "<>", "!=", ":=", "||", "&&", "<<", ">>", "->"} {
		if strings.HasPrefix(rest, o) {
			return len(o)
		}
	}
	return 1
}

// is reports whether token i is one of the keywords, which are in upper case.
func (s *source) is(i int, keywords ...string) bool {
	if i < 0 || i >= len(s.toks) || s.toks[i].kind != word {
		return false
	}
	t := s.of(i)
	for _, k := range keywords {
		if len(k) == len(t) && strings.EqualFold(k, t) {
			return true
		}
	}
	return false
}

// op reports whether token i is that operator.
func (s *source) op(i int, o string) bool {
	return i >= 0 && i < len(s.toks) && s.toks[i].kind == op && s.of(i) == o
}

// named reports whether token i can be a name.
func (s *source) named(i int) bool { return i < len(s.toks) && s.toks[i].kind <= name }

// of is the text of token i.
func (s *source) of(i int) string { return s.toks[i].Of(s.text) }

// unquote is the name that token i spells.
func (s *source) unquote(i int) string {
	t := s.of(i)
	if q := t[:1]; q == "`" || q == `"` {
		return strings.ReplaceAll(t[1:len(t)-1], q+q, q)
	}
	return t
}

// unescape is what token i, a string literal, stands for
// (https://dev.mysql.com/doc/refman/8.0/en/string-literals.html).
func (s *source) unescape(i int) string {
	raw := s.of(i)
	quote, raw := raw[0], raw[1:len(raw)-1]
	out := make([]byte, 0, len(raw))
	for j := 0; j < len(raw); j++ {
		c := raw[j]
		switch {
		case c == quote: // doubled
			j++
		case c == '\\' && s.mode&noBackslashEscapes == 0:
			j++
			c = raw[j]
			if k := strings.IndexByte("0bnrtZ", c); k >= 0 {
				c = "\x00\b\n\r\t\x1a"[k]
			} else if c == '%' || c == '_' {
				out = append(out, '\\')
			}
		}
		out = append(out, c)
	}
	return string(out)
}

// match is the index of the counterpart of token i, a parenthesis, or its number, a marker.
func (s *source) match(i int) int { return int(s.toks[i].match) }

// span covers the tokens [lo, hi).
func (s *source) span(lo, hi int) dialects.Span {
	if lo >= hi {
		return dialects.Span{}
	}
	return dialects.Span{Start: s.toks[lo].Start, End: s.toks[hi-1].End}
}

// next is the index of the token behind token i and, if it is a parenthesis
// that opens, behind all that it holds.
func (s *source) next(i int) int {
	if s.op(i, "(") {
		return s.match(i) + 1
	}
	return i + 1
}

// find is the first token in [lo, hi), outside of parentheses, for which f
// holds, or hi.
func (s *source) find(lo, hi int, f func(i int) bool) int {
	for i := lo; i < hi; i = s.next(i) {
		if f(i) {
			return i
		}
	}
	return hi
}

// items splits [lo, hi) at the commas outside of parentheses. ok is false when
// an item is empty; no tokens are no items.
func (s *source) items(lo, hi int) (items [][2]int, ok bool) {
	ok = s.eachItem(lo, hi, func(lo, hi int) { items = append(items, [2]int{lo, hi}) })
	return items, ok
}

// eachItem calls f for the items of [lo, hi), as items gives them.
func (s *source) eachItem(lo, hi int, f func(lo, hi int)) (ok bool) {
	if lo >= hi {
		return true
	}
	start := lo
	for i := lo; i <= hi; i = s.next(i) {
		if i == hi || s.op(i, ",") {
			if i == start {
				return false
			}
			f(start, i)
			start = i + 1
		}
	}
	return true
}

// clean is the text of [lo, hi) as the parser gets it, each token at its old
// offset: no comments, no hints, no line breaks; strings and variables without
// the bytes that the parser might read otherwise than the server does; names
// in backquotes whatever the mode; and without what the parser has no
// knowledge of but need not know. Tokens for which blank holds are left out.
// Nothing but the shape of the tree is used, never a value in it.
func (s *source) clean(lo, hi int, blank func(i int) bool) (string, error) {
	base := s.toks[lo].Start
	out := []byte(strings.Repeat(" ", s.toks[hi-1].End-base))
	for i := lo; i < hi; i++ {
		if blank != nil && blank(i) {
			continue
		}
		t := s.toks[i]
		raw, to := t.Of(s.text), out[t.Start-base:t.End-base]
		copy(to, raw)
		switch {
		case s.op(i, "-") && i > lo && s.op(i-1, "-") && s.toks[i-1].End == t.Start:
			to[0] = '+' // where a comment stood behind "--" there is white space now
		case t.kind == str:
			plain(to[1 : len(to)-1])
		case t.kind == number && len(to) > 18: // more digits than a parser's values may hold
			copy(to, "0"+strings.Repeat(" ", len(to)))
		case t.kind == variable && strings.ContainsAny(raw, "'\"`"):
			copy(to[1:], strings.Repeat("x", len(to)))
		case t.kind == name && raw[0] == '"':
			if strings.ContainsAny(raw[1:len(raw)-1], "\"`") {
				return "", errorAt("a name with a quote in it", t.Start)
			}
			to[0], to[len(to)-1] = '`', '`'
		case t.kind == name && raw[0] == '`':
			if strings.ContainsAny(raw, "\r\n") {
				return "", errorAt("a name with a line break in it", t.Start)
			}
		case s.is(i, "JSON_TABLE") && s.op(i+1, "("): // not in the parser: a subquery in its place
			copy(to, "(SELECT 1 ")
			i = s.match(i+1) - 1
		case s.is(i, "VALUE") && s.op(i+1, "(") && s.toks[i-1].kind == op && !s.op(i-1, ")"):
			copy(to, "ABS  ") // MariaDB's other name of VALUES(column)
		case s.is(i, "IGNORE") && (s.op(i-1, "(") || s.op(i-1, ",") || s.op(i-1, "=")):
			copy(to, "NULL  ") // MariaDB's value of that name
		case t.kind == word && freeInMariaDB[strings.ToUpper(raw)] && !s.op(i+1, "("):
			copy(to, disguise(raw))
		case t.kind == word && raw[0] == '_' && i+1 < hi && s.toks[i+1].kind == str:
			copy(to, strings.Repeat(" ", len(to))) // a character set introducer
		case s.is(i-1, "COLLATE") && t.kind <= name && len(to) >= len("binary"):
			copy(to, "binary"+strings.Repeat(" ", len(to))) // the parser knows few collations
		case (s.is(i-1, "USING") && s.op(i+1, ")") || t.depth > 0 && s.is(i-1, "SET", "CHARSET")) && t.kind == word && len(to) >= len("utf8"):
			copy(to, "utf8"+strings.Repeat(" ", len(to))) // nor character sets
		}
	}
	return string(out), nil
}

// freeInMariaDB are words that the parser reserves and MariaDB does not: names
// there when no parenthesis follows.
var freeInMariaDB = map[string]bool{
	"CUME_DIST": true, "DENSE_RANK": true, "FIRST_VALUE": true, "GENERATED": true, "GROUPS": true, "LAG": true,
	"LAST_VALUE": true, "LEAD": true, "NTH_VALUE": true, "NTILE": true, "OPTION": true, "PERCENT_RANK": true,
	"RANK": true, "STORED": true, "TABLESAMPLE": true, "UNTIL": true, "VIRTUAL": true,
}

// disguise makes a name of a reserved word, of the same length.
func disguise(word string) string { return word[:len(word)-1] + "_" }

// plain makes bytes of a literal harmless.
func plain(b []byte) {
	for i, c := range b {
		if c < ' ' || c >= 0x7f || c == '\\' || c == '\'' || c == '"' || c == '`' {
			b[i] = 'x'
		}
	}
}
