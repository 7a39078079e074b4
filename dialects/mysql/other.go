package mysql

import (
	"strings"

	"github.com/fencedsql/fencedsql/dialects"
)

// What is neither INSERT, UPDATE nor DELETE is told by its first words.

// harmless are the first words of statements that change no table's rows or
// columns, whatever follows them. What a function or a stored program does no
// text shows.
var harmless = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(`SELECT VALUES TABLE SHOW USE DO HELP KILL FLUSH LOCK UNLOCK GRANT REVOKE CHECK CHECKSUM
		OPTIMIZE REPAIR CACHE RESET PURGE CHANGE STOP DEALLOCATE HANDLER SIGNAL RESIGNAL GET INSTALL UNINSTALL SHUTDOWN
		RESTART CLONE ADMIN SPLIT XA`) {
		words[w] = true
	}
	return words
}()

// inside refuses a write in parentheses, such as one in a WITH clause. These
// servers know none; a later one may.
func (s *source) inside(lo, hi int, st *dialects.Statement) {
	for i := lo; i < hi; i++ {
		if s.op(i, "(") && s.is(i+1, "INSERT", "UPDATE", "DELETE", "REPLACE") && !s.op(i+2, "(") {
			s.unknown(lo, hi, st, "a write inside of a statement is not known", "send it alone")
			return
		}
	}
}

// other reads the statement [lo, hi) of any other kind; lo is behind a WITH clause.
func (s *source) other(lo, hi int, st *dialects.Statement) error {
	first := lo
	for s.op(first, "(") {
		first++
	}
	if s.toks[first].kind != word {
		return errorAt("no statement begins so", s.toks[lo].Start)
	}
	verb := strings.ToUpper(s.of(first))
	switch {
	case first > lo && !s.queryAt(first):
		return errorAt("no statement begins so", s.toks[lo].Start)
	case harmless[verb]:
	case s.transaction(lo, hi, &st.Tx):
	case verb == "START": // SLAVE, GROUP_REPLICATION
	case verb == "EXPLAIN", verb == "DESCRIBE", verb == "DESC", verb == "ANALYZE", verb == "TRACE":
		s.explain(lo, hi, st)
	case verb == "SET":
		// MariaDB's SET STATEMENT … FOR runs a statement.
		run := s.find(lo, hi, func(i int) bool { return s.is(i, "FOR") }) + 1
		if s.is(lo+1, "STATEMENT") && !s.is(run, "SELECT", "VALUES") {
			s.unknown(lo, hi, st, "SET STATEMENT hides what it runs", "send the statement alone, after SET SESSION")
		}
	case verb == "EXECUTE" && !s.is(lo+1, "IMMEDIATE"): // what was prepared
	case verb == "EXECUTE":
		using := s.find(lo, hi, func(i int) bool { return s.is(i, "USING") })
		s.runs("EXECUTE IMMEDIATE", lo+2, using, st)
	case verb == "PREPARE":
		from := s.find(lo, hi, func(i int) bool { return s.is(i, "FROM") })
		s.runs(verb, from+1, hi, st)
	case verb == "CALL":
		s.unknown(lo, hi, st, "what a procedure writes is not fenced", "send its statements through the driver, or fencedsql.Unfenced(ctx)")
	case verb == "REPLACE":
		i := lo + 1
		for s.is(i, "LOW_PRIORITY", "DELAYED", "INTO") {
			i++
		}
		s.refuse(i, hi, st, "REPLACE deletes the row that is in the way, whatever its fence",
			"write INSERT … ON DUPLICATE KEY UPDATE …")
	case verb == "TRUNCATE":
		i := lo + 1
		if s.is(i, "TABLE") {
			i++
		}
		s.refuse(i, hi, st, "TRUNCATE deletes rows whatever their fence", "write DELETE, or "+dialects.HintUnfenced)
	case verb == "LOAD" && s.is(lo+1, "DATA", "XML"):
		i := s.find(lo, hi, func(i int) bool { return s.is(i, "INTO") && s.is(i+1, "TABLE") })
		s.refuse(i+2, hi, st, "LOAD "+strings.ToUpper(s.of(lo+1))+" writes rows without a fence", "write INSERT, or "+dialects.HintUnfenced)
	case verb == "LOAD": // INDEX, STATS
	case verb == "IMPORT" && s.is(lo+1, "INTO"):
		s.refuse(lo+2, hi, st, "IMPORT writes rows without a fence", "write INSERT, or "+dialects.HintUnfenced)
	case verb == "DROP":
		i := lo + 1
		if s.is(i, "TEMPORARY") {
			i++
		}
		if s.is(i, "TABLE", "TABLES") {
			i = s.ifExists(i + 1)
			end := s.find(i, hi, func(i int) bool { return s.is(i, "RESTRICT", "CASCADE", "WAIT", "NOWAIT") })
			items, _ := s.items(i, end)
			for _, it := range items {
				s.refuse(it[0], it[1], st, "DROP TABLE takes the stored fences away", dialects.HintUnfenced)
			}
		}
	case verb == "RENAME":
		if s.is(lo+1, "TABLE", "TABLES") {
			for i := lo + 1; i < hi; i++ {
				if s.is(i, "TABLE", "TABLES", "TO") || s.op(i, ",") {
					s.refuse(s.ifExists(i+1), hi, st, "a renamed table is no longer the registered one", dialects.HintUnfenced)
				}
			}
		}
	case verb == "CREATE":
		s.create(lo, hi, st)
	case verb == "ALTER":
		s.alter(lo, hi, st)
	case verb == "INSERT": // behind WITH
		s.unknown(lo, hi, st, "INSERT behind a WITH clause is not known", "write INSERT INTO … WITH … SELECT")
	default:
		s.unknown(lo, hi, st, "a statement that begins with "+verb+" is not known", "write INSERT, UPDATE or DELETE, or "+dialects.HintUnfenced)
	}
	return nil
}

// runs adds a write of whatever tables the text names that a statement runs,
// and that the tokens [lo, hi) give. If they are more than one plain literal
// it may name any: one with a prefix, and two that become one, may hold a name
// that no search finds.
func (s *source) runs(verb string, lo, hi int, st *dialects.Statement) {
	if lo+1 != hi || s.toks[lo].kind != str {
		st.AddWrite(s.text, dialects.Write{
			TargetText: st.Of(s.text), // Obscured
			Reason:     verb + " takes a text that cannot be read",
			Hint:       "write the statement itself, or " + dialects.HintUnfenced,
		})
		return
	}
	if text := s.unescape(lo); text != "" { // the empty one is an error
		st.AddWrite(s.text, dialects.Write{
			TargetText: text,
			Reason:     verb + " takes a text that is not fenced",
			Hint:       "prepare statements through database/sql",
		})
	}
}

func (s *source) ifExists(i int) int {
	for s.is(i, "IF", "NOT", "EXISTS") {
		i++
	}
	return i
}

// refuse adds a write that cannot be fenced of the table at token i.
func (s *source) refuse(i, hi int, st *dialects.Statement, reason, hint string) {
	r, ok := s.tableName(i, hi)
	if !ok {
		s.unknown(0, len(s.toks), st, reason, hint)
		return
	}
	w := s.write(dialects.Other, r)
	w.Reason, w.Hint = reason, hint
	st.AddWrite(s.text, w)
}

// unknown adds a write of whatever tables the tokens [lo, hi) name.
func (s *source) unknown(lo, hi int, st *dialects.Statement, reason, hint string) {
	st.AddWrite(s.text, dialects.Write{TargetText: s.span(lo, hi).Of(s.text), Reason: reason, Hint: hint})
}

// explain reads EXPLAIN and its like, which run the statement with ANALYZE or TRACE.
func (s *source) explain(lo, hi int, st *dialects.Statement) {
	if s.is(lo, "ANALYZE") && (s.is(lo+1, "TABLE", "TABLES") || s.is(lo+1, "LOCAL", "NO_WRITE_TO_BINLOG", "INCREMENTAL")) {
		return // ANALYZE TABLE
	}
	verb := s.find(lo+1, hi, func(i int) bool {
		return s.is(i, "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "TABLE", "VALUES", "FOR", "IMPORT", "CALL") || s.op(i, "(")
	})
	runs := s.is(lo, "ANALYZE", "TRACE")
	for i := lo + 1; i < verb; i++ {
		runs = runs || s.is(i, "ANALYZE")
	}
	if s.is(verb, "WITH") {
		verb, _, _ = s.afterWith(verb, hi)
	}
	if runs && !s.is(verb, "SELECT", "TABLE", "VALUES", "FOR") && !s.op(verb, "(") {
		s.unknown(lo, hi, st, strings.ToUpper(s.of(lo))+" runs the statement that it explains", "explain it without ANALYZE")
	}
}

// storedProgram reports whether the statement at lo defines a procedure, a
// function, a trigger or an event, whose body may be several statements.
func (s *source) storedProgram(lo int) bool {
	if !s.is(lo, "CREATE") {
		return false
	}
	for i := lo + 1; i < len(s.toks) && !s.op(i, ";"); i++ {
		switch {
		case s.is(i, "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"):
			return true
		case s.is(i, "TABLE", "VIEW", "INDEX", "DATABASE", "SCHEMA", "USER", "SEQUENCE"):
			return false
		}
	}
	return false
}

func (s *source) create(lo, hi int, st *dialects.Statement) {
	if s.storedProgram(lo) {
		if s.find(lo, hi, func(i int) bool { return s.op(i, ";") }) < hi {
			s.unknown(lo, hi, st, "what belongs to a stored program and what runs at once cannot be told apart", dialects.HintUnfenced)
		}
		return
	}
	table := lo + 1
	for s.is(table, "OR", "REPLACE", "GLOBAL", "LOCAL", "SESSION", "TEMPORARY") {
		table++
	}
	if !s.is(table, "TABLE") {
		return
	}
	i := s.ifExists(table + 1)
	if s.is(lo+1, "OR") {
		s.refuse(i, hi, st, "CREATE OR REPLACE TABLE takes the stored fences away", dialects.HintUnfenced)
		return
	}
	query := false
	for j := i; j < hi; j++ {
		query = query || s.is(j, "SELECT") || s.toks[j].depth == 0 && s.is(j, "VALUES", "TABLE")
	}
	if query {
		s.refuse(i, hi, st, "CREATE TABLE … SELECT writes rows without a fence", "create the table first, then INSERT … SELECT")
	}
}

// alter reads ALTER TABLE
// (https://dev.mysql.com/doc/refman/8.0/en/alter-table.html, https://mariadb.com/kb/en/alter-table/).
func (s *source) alter(lo, hi int, st *dialects.Statement) {
	i := lo + 1
	if s.is(i, "ONLINE") {
		i++
	}
	ignore := s.is(i, "IGNORE")
	if ignore {
		i++
	}
	if !s.is(i, "TABLE") {
		return
	}
	at := s.ifExists(i + 1)
	table, ok := s.tableName(at, hi)
	if !ok {
		s.unknown(lo, hi, st, "ALTER TABLE of a table that cannot be told", dialects.HintUnfenced)
		return
	}
	if ignore {
		s.refuse(at, hi, st, "ALTER IGNORE TABLE deletes rows whatever their fence", dialects.HintUnfenced)
		return
	}
	i = table.hi
	if s.is(i, "WAIT") {
		i += 2
	} else if s.is(i, "NOWAIT") {
		i++
	}
	actions, _ := s.items(i, hi)
	for _, a := range actions {
		s.action(a[0], a[1], at, st)
	}
}

// action reads one action of an ALTER TABLE of the table at token at.
func (s *source) action(i, hi, at int, st *dialects.Statement) {
	columns := func(n int) {
		s.refuse(at, hi, st, "ALTER TABLE changes the fence column", dialects.HintUnfenced)
		w := &st.Writes[len(st.Writes)-1]
		for i = s.ifExists(i); n > 0 && i < hi && s.named(i); n-- {
			w.Columns = append(w.Columns, s.unquote(i))
			i++
			if s.is(i, "TO") {
				i++
			}
		}
		if n > 0 {
			w.Columns = nil // not told: any
		}
	}
	skip := func(w string) {
		if s.is(i, w) {
			i++
		}
	}
	const rows = "ALTER TABLE takes rows away whatever their fence"
	switch i++; {
	case s.is(i-1, "CHANGE"):
		skip("COLUMN")
		columns(2)
	case s.is(i-1, "MODIFY"):
		skip("COLUMN")
		columns(1)
	case s.is(i-1, "DROP") && s.is(i, "PARTITION"), s.is(i-1, "TRUNCATE"), s.is(i-1, "EXCHANGE"), s.is(i-1, "DISCARD"),
		s.is(i-1, "IMPORT"), s.is(i-1, "CONVERT") && !s.is(i, "TO"):
		s.refuse(at, hi, st, rows, dialects.HintUnfenced)
	case s.is(i-1, "DROP") && s.is(i, "INDEX", "KEY", "PRIMARY", "FOREIGN", "CONSTRAINT", "CHECK", "PERIOD", "SYSTEM"):
	case s.is(i-1, "DROP"):
		skip("COLUMN")
		columns(1)
	case s.is(i-1, "RENAME") && s.is(i, "COLUMN"):
		i++
		columns(2)
	case s.is(i-1, "RENAME") && s.is(i, "INDEX", "KEY"):
	case s.is(i-1, "RENAME"):
		const reason = "a renamed table is no longer the registered one"
		s.refuse(at, hi, st, reason, dialects.HintUnfenced)
		if s.is(i, "TO", "AS") || s.op(i, "=") {
			i++
		}
		s.refuse(i, hi, st, reason, dialects.HintUnfenced)
	}
}

// transaction reads what begins or ends a transaction or a savepoint. A
// statement that commits by the way, such as DDL, is none of them, nor is XA.
func (s *source) transaction(lo, hi int, tx *dialects.TxOp) bool {
	i := lo + 1
	if s.is(i, "WORK") {
		i++
	}
	savepoint := func(v dialects.TxVerb, i int) bool {
		if i >= hi || !s.named(i) {
			return false
		}
		*tx = dialects.TxOp{Verb: v, Name: strings.ToLower(s.unquote(i))}
		return true
	}
	switch {
	case s.is(lo, "BEGIN") && (i == hi || s.is(i, "PESSIMISTIC", "OPTIMISTIC")), s.is(lo, "START") && s.is(i, "TRANSACTION"):
		tx.Verb = dialects.TxBegin
	case s.is(lo, "COMMIT"):
		tx.Verb, tx.Chain = dialects.TxCommit, s.is(i, "AND") && s.is(i+1, "CHAIN")
	case s.is(lo, "ROLLBACK") && s.is(i, "TO"):
		if i++; s.is(i, "SAVEPOINT") {
			i++
		}
		return savepoint(dialects.TxRollbackTo, i)
	case s.is(lo, "ROLLBACK"):
		tx.Verb, tx.Chain = dialects.TxRollback, s.is(i, "AND") && s.is(i+1, "CHAIN")
	case s.is(lo, "SAVEPOINT"):
		return savepoint(dialects.TxSavepoint, lo+1)
	case s.is(lo, "RELEASE") && s.is(lo+1, "SAVEPOINT"):
		return savepoint(dialects.TxRelease, lo+2)
	default:
		return false
	}
	return true
}
