package postgres

import (
	"errors"
	"slices"
	"strings"
)

// The parser's tree says what a text does, but not where a clause ends. The
// tokens say that. They are read here and not with the parser's own Scan, which
// goes through protobuf and takes longer than the parse; a fuzz test holds the
// two to the same borders. The rules are those of PostgreSQL's
// src/backend/parser/scan.l.

// token is one lexical element; comments and white space are none.
type token struct {
	start, end int32
	// mate is the index of the other bracket of a pair.
	mate int32
	// up is the index of the innermost bracket around the token, or -1.
	up   int32
	kind kind
}

// kind tells apart the tokens that matter to clauses: a few characters, and
// the keywords that begin, end or mislead.
type kind uint8

const (
	other    kind = iota
	word          // an identifier, or a keyword without a kind of its own
	uword         // U&"…"
	number        // a numeric literal
	literal       // a string literal of any sort
	param         // $1
	operator      // any operator without a kind of its own
	equals        // =
	star          // *
	lparen
	rparen
	lbracket
	rbracket
	comma
	dot
	semicolon

	// Keywords, in the order of keywordNames.
	kwAll
	kwAnd
	kwAs
	kwBetween
	kwCase
	kwCycle
	kwDefault
	kwDelete
	kwDistinct
	kwDo
	kwEnd
	kwExcept
	kwFetch
	kwFor
	kwFrom
	kwGroup
	kwHaving
	kwInsert
	kwIntersect
	kwInto
	kwIs
	kwJSONObject
	kwJoin
	kwKey
	kwLimit
	kwMerge
	kwNot
	kwOffset
	kwOn
	kwOnly
	kwOr
	kwOrder
	kwOverlay
	kwOverriding
	kwRecursive
	kwReturning
	kwSearch
	kwSelect
	kwSet
	kwSubstring
	kwTable
	kwTo
	kwUescape
	kwUnion
	kwUpdate
	kwUsing
	kwValues
	kwWhere
	kwWindow
	kwWith
)

var keywordNames = strings.Fields(`all and as between case cycle default delete distinct do end except fetch for from
	group having insert intersect into is json_object join key limit merge not offset on only or order overlay overriding
	recursive returning search select set substring table to uescape union update using values where window with`)

const longestKeyword = len("json_object")

var keywords = func() map[string]kind {
	m := make(map[string]kind, len(keywordNames))
	for i, name := range keywordNames {
		m[name] = kwAll + kind(i)
	}
	return m
}()

var (
	errUnclosed  = errors.New("a string, comment or quoted name is not closed")
	errNumber    = errors.New("a number runs into a name")
	errBrackets  = errors.New("brackets do not match")
	errOperators = errors.New("too many operators stand side by side")
	errNested    = errors.New("the text is nested too deeply to be read safely")
)

// lexer reads tokens. It expects a text without NUL bytes.
type lexer struct {
	text string
	pos  int
	// backslash is set when an ordinary '…' literal holds a backslash, which
	// means itself or escapes, by standard_conforming_strings.
	backslash bool
	// ahead counts the characters looked at for the ends of operators.
	ahead int
}

// lex reads all tokens of a text and pairs its brackets.
func lex(text string) (toks []token, backslash bool, err error) {
	l := lexer{text: text}
	toks = make([]token, 0, len(text)/4+8)
	for {
		t, err := l.next()
		if err != nil {
			return nil, false, err
		}
		if t.end == t.start {
			return toks, l.backslash, pair(toks)
		}
		if len(toks) == cap(toks) {
			// What follows has about as many tokens to the byte as what was read.
			toks = slices.Grow(toks, int(float64(len(toks))/float64(t.end)*float64(len(text)-int(t.end)))+8)
		}
		toks = append(toks, t)
	}
}

func (l *lexer) at(i int) byte {
	if i < len(l.text) {
		return l.text[i]
	}
	return 0
}

// next reads one token; an empty one ends the text.
func (l *lexer) next() (token, error) {
	start, err := l.space()
	if err != nil {
		return token{}, err
	}
	done := func(k kind) (token, error) {
		return token{start: int32(start), end: int32(l.pos), kind: k}, nil
	}
	if start == len(l.text) {
		return done(other)
	}
	c := l.text[start]
	switch {
	case c == '\'':
		return l.str(start, start+1, true)
	case c == '"':
		return l.quotedName(start, start+1, word)
	case isNameStart(c):
		switch second := l.at(start + 1); {
		case second == '\'' && strings.IndexByte("bBxX", c) >= 0:
			return l.str(start, start+2, false)
		case second == '\'' && (c == 'e' || c == 'E'):
			return l.escapeStr(start, start+2)
		case second == '\'' && (c == 'n' || c == 'N'):
			// The letter is read as the keyword NCHAR and the literal after it as any other.
			l.pos++
			return done(word)
		case second == '&' && (c == 'u' || c == 'U'):
			switch l.at(start + 2) {
			case '\'':
				return l.str(start, start+3, false)
			case '"':
				return l.quotedName(start, start+3, uword)
			}
			l.pos++
			return done(word)
		}
		for l.pos++; l.pos < len(l.text) && isNamePart(l.text[l.pos]); l.pos++ {
		}
		return done(keyword(l.text[start:l.pos]))
	case isDigit(c), c == '.' && isDigit(l.at(start+1)):
		return l.number(start)
	case c == '$':
		return l.dollar(start)
	case c == ':' && (l.at(start+1) == ':' || l.at(start+1) == '='), c == '.' && l.at(start+1) == '.':
		l.pos += 2
		return done(operator)
	case c == ':':
		l.pos++
		return done(operator)
	case isOperator(c):
		return l.operator(start)
	}
	l.pos++
	switch c {
	case '(':
		return done(lparen)
	case ')':
		return done(rparen)
	case '[':
		return done(lbracket)
	case ']':
		return done(rbracket)
	case ',':
		return done(comma)
	case '.':
		return done(dot)
	case ';':
		return done(semicolon)
	}
	return done(other)
}

// space skips white space and comments and returns where the next token begins.
func (l *lexer) space() (int, error) {
	for l.pos < len(l.text) {
		switch c := l.text[l.pos]; {
		case isSpace(c):
			l.pos++
		case c == '-' && l.at(l.pos+1) == '-':
			if i := strings.IndexAny(l.text[l.pos:], "\r\n"); i >= 0 {
				l.pos += i
			} else {
				l.pos = len(l.text)
			}
		case c == '/' && l.at(l.pos+1) == '*':
			if err := l.comment(); err != nil {
				return 0, err
			}
		default:
			return l.pos, nil
		}
	}
	return l.pos, nil
}

// comment skips a comment and those nested in it.
func (l *lexer) comment() error {
	depth := 1
	for i := l.pos + 2; i < len(l.text); {
		switch {
		case l.text[i] == '/' && l.at(i+1) == '*':
			depth++
			i += 2
		case l.text[i] == '*' && l.at(i+1) == '/':
			i += 2
			if depth--; depth == 0 {
				l.pos = i
				return nil
			}
		default:
			i++
		}
	}
	return errUnclosed
}

// str reads a string literal without escapes whose contents begin at i. In an
// ordinary one a backslash is noted.
func (l *lexer) str(start, i int, ordinary bool) (token, error) {
	for {
		j := strings.IndexByte(l.text[i:], '\'')
		if j < 0 {
			return token{}, errUnclosed
		}
		if ordinary && strings.IndexByte(l.text[i:i+j], '\\') >= 0 {
			l.backslash = true
		}
		i += j + 1
		next, ok := l.continued(i)
		if !ok {
			l.pos = i
			return token{start: int32(start), end: int32(i), kind: literal}, nil
		}
		i = next
	}
}

// escapeStr reads an E'…' literal whose contents begin at i.
func (l *lexer) escapeStr(start, i int) (token, error) {
	for i < len(l.text) {
		switch l.text[i] {
		case '\\':
			i += 2
		case '\'':
			i++
			next, ok := l.continued(i)
			if !ok {
				l.pos = i
				return token{start: int32(start), end: int32(i), kind: literal}, nil
			}
			i = next
		default:
			i++
		}
	}
	return token{}, errUnclosed
}

// continued reports whether a literal goes on behind a quote that ends before
// i, and where: with another quote, or after white space with a line break in
// it. Bit and hex literals know no doubled quote, but what follows such a one
// is a syntax error anyway.
func (l *lexer) continued(i int) (int, bool) {
	if l.at(i) == '\'' {
		return i + 1, true
	}
	lines := false
	for ; i < len(l.text) && isSpace(l.text[i]); i++ {
		lines = lines || l.text[i] == '\n' || l.text[i] == '\r'
	}
	return i + 1, lines && l.at(i) == '\''
}

func (l *lexer) quotedName(start, i int, k kind) (token, error) {
	for {
		j := strings.IndexByte(l.text[i:], '"')
		if j < 0 {
			return token{}, errUnclosed
		}
		i += j + 1
		if l.at(i) != '"' {
			l.pos = i
			return token{start: int32(start), end: int32(i), kind: k}, nil
		}
		i++
	}
}

// dollar reads a parameter, a dollar-quoted literal, or a lone dollar sign.
func (l *lexer) dollar(start int) (token, error) {
	i := start + 1
	k := other
	switch {
	case isDigit(l.at(i)):
		for k = param; isDigit(l.at(i)); i++ {
		}
	case l.at(i) == '$' || isNameStart(l.at(i)):
		for i < len(l.text) && isNamePart(l.text[i]) && l.text[i] != '$' {
			i++
		}
		if l.at(i) != '$' {
			i = start + 1
			break
		}
		tag := l.text[start : i+1]
		j := strings.Index(l.text[i+1:], tag)
		if j < 0 {
			return token{}, errUnclosed
		}
		i, k = i+1+j+len(tag), literal
	}
	l.pos = i
	return token{start: int32(start), end: int32(i), kind: k}, nil
}

// number reads a numeric literal. The forms that PostgreSQL refuses are
// errors here as well, or the parser will refuse them.
func (l *lexer) number(start int) (token, error) {
	i := start
	digits := func(is func(byte) bool) {
		for is(l.at(i)) || l.at(i) == '_' && is(l.at(i+1)) {
			i++
		}
	}
	if l.text[i] == '0' && strings.IndexByte("xXoObB", l.at(i+1)) >= 0 && l.at(i+1) != 0 {
		base := l.at(i + 1)
		i += 2
		switch base | 0x20 {
		case 'x':
			digits(isHex)
		case 'o':
			digits(isOctal)
		case 'b':
			digits(isBinary)
		}
	} else {
		if l.text[i] != '.' {
			digits(isDigit)
		}
		if l.at(i) == '.' && l.at(i+1) != '.' {
			i++
			if isDigit(l.at(i)) {
				digits(isDigit)
			}
		}
		if e := l.at(i); e == 'e' || e == 'E' {
			i++
			if l.at(i) == '+' || l.at(i) == '-' {
				i++
			}
			if !isDigit(l.at(i)) {
				return token{}, errNumber
			}
			digits(isDigit)
		}
	}
	if i < len(l.text) && isNameStart(l.text[i]) {
		return token{}, errNumber
	}
	l.pos = i
	return token{start: int32(start), end: int32(i), kind: number}, nil
}

// operator reads the longest operator. It ends before a comment, and does not
// end with + or - unless it holds a character that no operator of the SQL
// standard has. What is behind its end is looked at again for the next one,
// here and in the parser.
func (l *lexer) operator(start int) (token, error) {
	end := start
	for end < len(l.text) && isOperator(l.text[end]) {
		end++
	}
	if l.ahead += end - start; l.ahead > len(l.text)+maxAhead {
		return token{}, errOperators
	}
	i := start + 1
	for i < end && !(l.text[i] == '-' && l.at(i+1) == '-' || l.text[i] == '/' && l.at(i+1) == '*') {
		i++
	}
	if i-start > 1 && (l.text[i-1] == '+' || l.text[i-1] == '-') && !strings.ContainsAny(l.text[start:i-1], "~!@#^&|`?%") {
		for i-start > 1 && (l.text[i-1] == '+' || l.text[i-1] == '-') {
			i--
		}
	}
	l.pos = i
	k := operator
	switch l.text[start:i] {
	case "=":
		k = equals
	case "*":
		k = star
	}
	return token{start: int32(start), end: int32(i), kind: k}, nil
}

func keyword(s string) kind {
	if len(s) > longestKeyword {
		return word
	}
	var lower [longestKeyword]byte
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	if k, ok := keywords[string(lower[:len(s)])]; ok {
		return k
	}
	return word
}

func isSpace(c byte) bool  { return c == ' ' || '\t' <= c && c <= '\r' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isOctal(c byte) bool  { return '0' <= c && c <= '7' }
func isBinary(c byte) bool { return c == '0' || c == '1' }
func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
func isNameStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}
func isNamePart(c byte) bool { return isNameStart(c) || isDigit(c) || c == '$' }
func isOperator(c byte) bool {
	return c > ' ' && c < 0x7f && strings.IndexByte("~!@#^&|`?+-*/%<>=", c) >= 0
}

// What a text may cost the parser, which descends recursively, looks ahead
// through runs of parentheses, and tries some constructs twice. A text that
// goes beyond is refused: PostgreSQL itself gives up at a depth of a few
// thousand (max_stack_depth, YYMAXDEPTH).
const (
	maxDepth = 2000    // of recursion, at up to 3.4 KB of stack each
	maxWork  = 4 << 20 // token visits beyond one per token, at some 50 ns each
	maxAhead = 8 << 20 // characters looked at for the ends of operators beyond one per byte, at some ns each
)

// opened is a bracket, or a CASE, that is not closed yet.
type opened struct {
	index int32
	depth int   // of recursion inside it
	joins int   // begun inside it that wait for their ON
	times int64 // how often the parser may read what is inside it
}

// pair links the brackets and weighs the text.
func pair(toks []token) error {
	var room [16]opened
	stack := append(room[:0], opened{index: -1, times: 1})
	top := &stack[0]
	isCase := func() bool { return len(stack) > 1 && toks[top.index].kind == kwCase }
	pop := func() {
		stack = stack[:len(stack)-1]
		top = &stack[len(stack)-1]
	}
	depth, run := 0, 0 // of recursion at the token; of parentheses just opened
	up := int32(-1)
	var work int64
	for i := range toks {
		t := &toks[i]
		t.up = up
		work += top.times - 1
		prefix, running := false, false
		switch t.kind {
		case operator, star, equals, kwNot:
			prefix = true // or may be one; prefixes nest
		case kwJoin:
			top.joins++
		case kwOn, kwUsing:
			top.joins = max(top.joins-1, 0)
		case lparen, lbracket, kwCase:
			in := opened{index: int32(i), depth: depth + 1, times: top.times}
			if t.kind == lparen {
				running = true
				work += int64(run)
				in.times *= doubles(toks, i, run+1)
			}
			if t.kind != kwCase {
				up = int32(i)
			}
			stack = append(stack, in)
			top = &stack[len(stack)-1]
		case rparen, rbracket:
			for isCase() { // one that is a label, as in "x AS case", is never closed
				pop()
			}
			if len(stack) == 1 || (toks[top.index].kind == lparen) != (t.kind == rparen) {
				return errBrackets
			}
			t.mate = top.index
			toks[t.mate].mate = int32(i)
			t.up = toks[t.mate].up
			up = t.up
			pop()
		case kwEnd:
			if isCase() {
				pop()
			}
		}
		if prefix {
			depth++
		} else {
			depth = top.depth + top.joins
		}
		if running {
			run++
		} else {
			run = 0
		}
		if depth > maxDepth || work > maxWork || top.times > maxWork {
			return errNested
		}
	}
	for isCase() {
		pop()
	}
	if len(stack) > 1 {
		return errBrackets
	}
	return nil
}

// doubles says how often the parser may read what the parenthesis at i holds:
// it tries the special form of these functions before the common one, and a
// parenthesized select before an expression that begins with one, at each
// parenthesis of a run.
func doubles(toks []token, i, run int) int64 {
	if i+1 < len(toks) {
		switch toks[i+1].kind {
		case kwSelect, kwValues, kwTable, kwWith:
			return int64(run)
		}
	}
	if i > 0 {
		switch toks[i-1].kind {
		case kwOverlay, kwSubstring, kwJSONObject:
			return 2
		}
	}
	return 1
}
