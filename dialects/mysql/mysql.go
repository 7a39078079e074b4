// Package mysql is the dialect of MySQL, MariaDB and TiDB, read with the
// parser of TiDB, github.com/pingcap/tidb/pkg/parser. It serves every
// database/sql driver of these servers and imports none.
package mysql

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pingcap/tidb/pkg/parser"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
)

func init() { dialects.Register(dialect{}) }

type dialect struct{}

func (dialect) Name() string { return "mysql" }

// The bits of a Mode. Zero is a server's default sql_mode with UTF-8.
const (
	ansiQuotes         dialects.Mode = 1 << iota // "x" is a name
	noBackslashEscapes                           // '\' is a string
	pipesAsConcat                                // || is not OR
	highNotPrecedence                            // NOT a BETWEEN b AND c is (NOT a) BETWEEN …
	ignoreSpace                                  // count (x) is a call
	notUTF8                                      // the client's character set is another, of single bytes or with harmless ones
)

// Parse reads a text: see the files lexer.go, parse.go and other.go.
func (dialect) Parse(text string, mode dialects.Mode) (*dialects.Script, error) {
	return parse(text, mode)
}

// Obscured is true for the letters outside of ASCII that some server folds to
// a letter in it, for a name in which a quote is doubled, and for a text that
// may have a statement that runs a text.
func (dialect) Obscured(text string) bool {
	for _, s := range obscure {
		// Most texts have not even its first byte, which takes half the time to tell.
		if i := strings.IndexByte(text, s[0]); i >= 0 && strings.Contains(text[i:], s) {
			return true
		}
	}
	return mayRunText(text)
}

// mayRunText reports whether the text may have a PREPARE … FROM or an EXECUTE
// IMMEDIATE, in a compound statement or a SET STATEMENT … FOR too. Nearly all
// texts are told by their first word, since none of these stands behind it
// without a semicolon.
func mayRunText(text string) bool {
	i := 0
	for i < len(text) && (text[i] <= ' ' || text[i] == ';' || text[i] == '(') {
		i++
	}
	if i == len(text) {
		return false
	}
	verb := ""
	switch text[i] | 0x20 {
	case 's':
		verb = "select"
	case 'i':
		verb = "insert"
	case 'u':
		verb = "update"
	case 'd':
		verb = "delete"
	case 'r':
		verb = "replace"
	case 'w':
		verb = "with"
	case 'c':
		verb = "call"
	}
	text = text[i:]
	if verb != "" && dialects.HasPrefixFold(text, verb) && (len(text) == len(verb) || !wordByte(text[len(verb)])) &&
		(strings.IndexByte(text, ';') < 0 || strings.IndexByte(strings.TrimRight(text, " \t\r\n;"), ';') < 0) {
		return false
	}
	return hasWords(text, "prepare", "from") || hasWords(text, "execute", "immediate")
}

// hasWords reports whether the first word stands in the text, and the second
// somewhere behind it.
func hasWords(text, first, second string) bool {
	i := wordAt(text, first)
	return i >= 0 && wordAt(text[i+len(first):], second) >= 0
}

// wordAt is where the word, in whatever case, stands in the text, or -1. A byte
// that is not ASCII does not count as part of a word: to some a byte 0xA0 is a blank.
func wordAt(text, word string) int {
	inWord := func(i int) bool { return 0 <= i && i < len(text) && text[i] < 0x80 && wordByte(text[i]) }
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == word[0] && dialects.HasPrefixFold(text[i:], word) && !inWord(i-1) && !inWord(i+len(word)) {
			return i
		}
	}
	return -1
}

// obscure are ſ and the sign of the kelvin, which fold to s and k in Unicode, İ and ı, which fold
// to i in some of MySQL's tables, and a quote that is doubled.
var obscure = [...]string{"\u017f", "\u212a", "\u0130", "\u0131", "``"}

var asciiFold = strings.NewReplacer("\u017f", "s", "\u212a", "k", "\u0130", "i", "\u0131", "i")

// fold compares names as the servers do or more loosely: columns and aliases
// never by case, tables by case on some servers only, which is not known here
// (https://dev.mysql.com/doc/refman/8.0/en/identifier-case-sensitivity.html).
func fold(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	beyondASCII := func(r rune) bool { return r >= utf8.RuneSelf }
	if strings.IndexFunc(a, beyondASCII) < 0 && strings.IndexFunc(b, beyondASCII) < 0 {
		return false
	}
	return strings.EqualFold(asciiFold.Replace(a), asciiFold.Replace(b))
}

func (dialect) Matches(registered, written dialects.Name) bool {
	return registered.Matches(written, fold)
}

func (dialect) SameColumn(a, b string) bool { return fold(a, b) }

// Quote uses backquotes, which are right under ANSI_QUOTES too.
func (dialect) Quote(name string) string { return quote(name) }

func quote(name string) string {
	if plainName.MatchString(name) && !reserved[strings.ToUpper(name)] {
		return name
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// A word that begins with an underscore may be a character set's.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// reserved are the words that cannot be a column's name without quotes, in
// TiDB, MySQL or MariaDB.
var reserved = func() map[string]bool {
	words := map[string]bool{}
	for _, k := range parser.Keywords {
		if k.Reserved {
			words[k.Word] = true
		}
	}
	for _, w := range strings.Fields(otherReserved) {
		words[w] = true
	}
	return words
}()

// otherReserved are words that MySQL 8.4 or MariaDB 10.11 reserves and TiDB does not
// (https://dev.mysql.com/doc/refman/8.4/en/keywords.html, https://mariadb.com/kb/en/reserved-words/).
const otherReserved = `ACCESSIBLE ASENSITIVE BEFORE CONDITION CUBE CURRENT_ROLE CURSOR DEC DECLARE DELETE_DOMAIN_ID
DETERMINISTIC DO_DOMAIN_IDS EACH ELSEIF EXCEPT EXIT FULL FUNCTION GENERAL GROUPING HIGH_PRIORITY IGNORE_DOMAIN_IDS
IGNORE_SERVER_IDS INOUT INSENSITIVE INTERSECT IO_AFTER_GTIDS IO_BEFORE_GTIDS ITERATE JSON_TABLE LATERAL LEAVE LOOP
LOW_PRIORITY MANUAL MASTER_BIND MASTER_DEMOTE_TO_REPLICA MASTER_DEMOTE_TO_SLAVE MASTER_HEARTBEAT_PERIOD MASTER_SSL_VERIFY_SERVER_CERT MODIFIES OFFSET OUT OVER
PAGE_CHECKSUM PARALLEL PARSE_VCOL_EXPR PORTION POSITION PURGE QUALIFY READS READ_WRITE REF_SYSTEM_ID REPEAT RESIGNAL RETURN
RETURNING ROWNUM ROWTYPE ROW_NUMBER SCHEMA SCHEMAS SENSITIVE SEPARATOR SIGNAL SLOW SPECIFIC SQLEXCEPTION SQL_BUFFER_RESULT SQL_CACHE SQL_NO_CACHE STATS_AUTO_RECALC
STATS_PERSISTENT STATS_SAMPLE_PAGES STORED SYSDATE SYSTEM TABLESAMPLE UNDO VALUE VECTOR WHILE WINDOW WITHIN`

func (dialect) Placeholder(int) string { return "?" }

// Cast has nothing to do. A cast would even harm: its result has a collation
// that may clash with the column's.
func (dialect) Cast(marker string, _ lease.Encoding) string { return marker }

// overflow is the largest BIGINT; the sum of it and a length is an error that
// no sql_mode and no IGNORE turns into a warning, unlike most others.
const overflow = "9223372036854775807 + "

// Assert raises error 1690, "BIGINT value is out of range". For text the sum,
// which is never reached, is cast to text so that the marker's type does not
// become BIGINT where the server derives it from its surroundings (MySQL 8).
func (dialect) Assert(column, bound, fence string, enc lease.Encoding) string {
	raise := overflow + "length(" + column + ")"
	if enc == lease.Text {
		raise = "CAST(" + raise + " AS CHAR)"
	}
	return "IF(" + column + " < " + bound + ", " + fence + ", " + raise + ")"
}

// DeleteGuard: only MariaDB has DELETE … RETURNING. An UPDATE that asserts the
// rows would change what the DELETE's own condition reads: columns that are ON
// UPDATE CURRENT_TIMESTAMP, what triggers write, the fence itself. An assertion
// in the condition may be evaluated for rows that the rest of it leaves out:
// the old rows of a system-versioned table, rows that no join finds.
func (dialect) DeleteGuard() dialects.DeleteGuard { return dialects.DeleteAfterRead }

func (dialect) LooseKeys() bool { return true }

func (dialect) ShortRows() bool { return false }

// Lock makes a read see the newest committed row under REPEATABLE READ too.
func (dialect) Lock() string { return " FOR UPDATE" }

// Newest: InnoDB's write looked at the newest row, under its lock, and a read
// under REPEATABLE READ looks at an older one.
func (dialect) Newest() string { return " FOR UPDATE" }

// Refused looks for the error of Assert by its number and by the expression
// that it quotes, in any language of the server. It quotes the column's name
// and not its value, so that the stored fence is never known from it:
//
//	Error 1690 (22003): BIGINT value is out of range in '9223372036854775807 + octet_length(`app`.`chats`.`fence`)'
//
// MySQL writes length, and parentheses around the sum; TiDB writes no quotes.
func (dialect) Refused(err error, column string, _ lease.Encoding) (stored lease.Fence, known, refused bool) {
	text := err.Error()
	i := strings.Index(text, overflow)
	if i < 0 || !strings.Contains(text[:i], "Error 1690") {
		return lease.Fence{}, false, false
	}
	argument, ok := strings.CutPrefix(strings.TrimPrefix(text[i+len(overflow):], "octet_"), "length(")
	if !ok {
		return lease.Fence{}, false, false
	}
	if !strings.Contains(argument, ")") {
		return lease.Fence{}, false, true // a server cuts its messages at 512 bytes: after long names
	}
	// The name is in the quotes of the sql_mode, or in none with sql_quote_show_create off.
	unquoted := func(s string) string { return strings.ToLower(quotes.Replace(strings.TrimRight(s, ")'"))) }
	before, ok := strings.CutSuffix(unquoted(argument), unquoted(column))
	return lease.Fence{}, false, ok && (before == "" || strings.HasSuffix(before, "."))
}

var quotes = strings.NewReplacer("`", "", `"`, "")

func (dialect) CommitEnds(error) bool { return false }

// LostTx: InnoDB rolls the whole transaction back on a deadlock (error 1213),
// Galera on a conflict, and what follows would run outside of it. In a
// transaction this is error 1568; outside it changes at most the level of the
// next one, to the default, and not even that once a ROLLBACK follows. TiDB
// takes the like with READ WRITE anywhere, but not this.
func (dialect) LostTx() string { return "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ" }

// Mode asks for sql_mode and for the character set in which the server reads texts.
func (dialect) Mode(ctx context.Context, q dialects.Querier) (dialects.Mode, error) {
	rows, err := q.Query(ctx, "SELECT @@SESSION.sql_mode, @@SESSION.character_set_client, IF(@@SESSION.autocommit, '1', '0')")
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 || len(rows[0]) != 3 {
		return 0, fmt.Errorf("mysql: the server does not tell its sql_mode")
	}
	mode, err := modeOf(dialects.Text(rows[0][0]), dialects.Text(rows[0][1]))
	if dialects.Text(rows[0][2]) == "0" {
		mode |= dialects.NoAutocommit
	}
	return mode, err
}

// MayCommit knows the statements that do not commit; the many that do are in
// https://dev.mysql.com/doc/refman/8.4/en/implicit-commit.html, and what a
// procedure or a compound statement does is not seen.
func (dialect) MayCommit(text string) bool {
	rest := afterComments(text)
	if strings.IndexByte(strings.TrimRight(rest, " \t\r\n;"), ';') >= 0 {
		return true // several statements, or a compound one
	}
	for _, w := range [...]string{"select", "insert", "update", "delete", "replace", "with", "values", "table", "show", "savepoint", "rollback", "release", "do", "explain", "use"} {
		if dialects.HasPrefixFold(rest, w) {
			return false
		}
	}
	if dialects.HasPrefixFold(rest, "set") { // SET autocommit = 1 and SET PASSWORD commit
		variable := strings.TrimLeft(rest[3:], " \t\r\n")
		return !strings.HasPrefix(variable, "@") || strings.HasPrefix(variable, "@@") || strings.Contains(variable, ",")
	}
	return true
}

// afterComments is the text from its first statement on, or from a comment
// that some server runs.
func afterComments(text string) string {
	for {
		text = strings.TrimLeft(text, " \t\r\n;(")
		end := ""
		switch {
		case strings.HasPrefix(text, "/*!"), strings.HasPrefix(text, "/*M!"):
		case strings.HasPrefix(text, "/*"):
			end = "*/"
		case strings.HasPrefix(text, "#"), strings.HasPrefix(text, "--"): // SELECT --1 does not begin so
			end = "\n"
		}
		if end == "" {
			return text
		}
		_, rest, found := strings.Cut(text, end)
		if !found {
			return text
		}
		text = rest
	}
}

func modeOf(sqlMode, charset string) (dialects.Mode, error) {
	var mode dialects.Mode
	for _, m := range strings.Split(strings.ToUpper(sqlMode), ",") {
		bit, ok := sqlModes[m]
		if !ok {
			return 0, fmt.Errorf("mysql: texts under sql_mode %s cannot be read: take it out of sql_mode", m)
		}
		mode |= bit
	}
	switch c := strings.ToLower(charset); {
	case c == "utf8mb4", c == "utf8", c == "utf8mb3":
	case slices.Contains(strings.Fields(otherCharsets), c):
		mode |= notUTF8
	default:
		return 0, fmt.Errorf("mysql: texts in character_set_client %s cannot be read: connect with utf8mb4", c)
	}
	return mode, nil
}

// SetsMode looks for SET with sql_mode, NAMES, CHARACTER SET, CHARSET or
// character_set_client, and takes what runs texts that are not seen for it.
func (dialect) SetsMode(text string) bool {
	i := 0
	for i < len(text) && (text[i] <= ' ' || text[i] == ';' || text[i] == '(') {
		i++
	}
	if i == len(text) {
		return false
	}
	switch rest := text[i:]; rest[0] {
	case 's', 'S':
		if dialects.HasPrefixFold(rest, "set") {
			return setsMode(rest)
		}
	case 'c', 'C':
		if dialects.HasPrefixFold(rest, "call") {
			return true
		}
	case 'e', 'E':
		if dialects.HasPrefixFold(rest, "execute") {
			return true
		}
	case '/', '-', '#': // a comment, behind which anything may stand
		return setsMode(rest)
	}
	return strings.IndexByte(text[i:], ';') >= 0 && setsMode(text[i:])
}

func setsMode(text string) bool {
	text = strings.ToLower(text)
	for _, w := range []string{"sql_mode", "names", "char", "autocommit", "call", "execute"} {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// sqlModes are the modes of MySQL up to 9, MariaDB up to 12 and TiDB under
// which a text is read as by default, or as a bit says. Those that only stand
// for others are among them. Not among them: ORACLE and MSSQL, which are other
// grammars, and what is not known yet.
var sqlModes = func() map[string]dialects.Mode {
	modes := map[string]dialects.Mode{
		"":                     0,
		"ANSI_QUOTES":          ansiQuotes,
		"NO_BACKSLASH_ESCAPES": noBackslashEscapes,
		"PIPES_AS_CONCAT":      pipesAsConcat,
		"HIGH_NOT_PRECEDENCE":  highNotPrecedence,
		"IGNORE_SPACE":         ignoreSpace,
	}
	for _, m := range strings.Fields(`ALLOW_INVALID_DATES ANSI DB2 EMPTY_STRING_IS_NULL ERROR_FOR_DIVISION_BY_ZERO
		IGNORE_BAD_TABLE_OPTIONS INVALID_DATES MAXDB MYSQL323 MYSQL40 NOT_USED NO_AUTO_CREATE_USER NO_AUTO_VALUE_ON_ZERO
		NO_DIR_IN_CREATE NO_ENGINE_SUBSTITUTION NO_FIELD_OPTIONS NO_KEY_OPTIONS NO_TABLE_OPTIONS NO_UNSIGNED_SUBTRACTION
		NO_ZERO_DATE NO_ZERO_IN_DATE ONLY_FULL_GROUP_BY PAD_CHAR_TO_FULL_LENGTH POSTGRESQL REAL_AS_FLOAT
		SIMULTANEOUS_ASSIGNMENT STRICT_ALL_TABLES STRICT_TRANS_TABLES TIME_ROUND_FRACTIONAL TIME_TRUNCATE_FRACTIONAL
		TRADITIONAL`) {
		modes[m] = 0
	}
	return modes
}()

// otherCharsets are those in which every byte below 0x80 is the ASCII
// character, wherever it stands. Not among them: big5, cp932, gb18030, gbk and
// sjis, in which a character may end in the byte of a backslash or a
// backquote, and swe7, in which these bytes are letters.
const otherCharsets = `armscii8 ascii binary cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 dec8 eucjpms euckr gb2312
 geostd8 greek hebrew hp8 keybcs2 koi8r koi8u latin1 latin2 latin5 latin7 macce macroman tis620 ujis`
