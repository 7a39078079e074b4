package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fencedsql/fencedsql/lease"
)

// names are those of the store's tables.
type names struct{ schema, prefix string }

func (n names) leases(d *dialect) string { return d.quoted(n.schema, n.prefix+"leases") }
func (n names) epoch(d *dialect) string  { return d.quoted(n.schema, n.prefix+"epoch") }

// The index is in the table's schema, and names the table without it.
func (n names) index(d *dialect) string   { return d.quoted(n.schema, n.prefix+"counter") }
func (n names) indexed(d *dialect) string { return d.quoted("", n.prefix+"leases") }

// A dialect is what an engine says in its own words. All numbers are signed 64 bits, times are the database's, in
// microseconds since 1970, and names, keys, tokens and owners are bytes, which every engine compares exactly.
type dialect struct {
	name  string
	quote string
	// numbered is whether parameters are $1, $2 instead of ?.
	numbered bool
	// now is the time of the statement. It must not be earlier than the statement was sent, but for what lifetime allows.
	now      string
	now1000  string // in milliseconds
	greatest string
	// server tells one run of the server from the next, where the epoch must go on with each: see counter.
	server string
	// epoch and counter make the fence of the lease that take may give: one larger than that of any lease given before
	// take was sent, of any key.
	epoch, counter string
	// draw, where one statement cannot do both, counts ahead of take, whose parameters epoch and counter then are.
	draw string
	// commits is a condition for what must be written for good when the statement ends.
	commits string
	take    string // appended to the common part
	// prepares is whether statements are better prepared once: go-sql-driver prepares each anew that has arguments, SQLite
	// parses it. PostgreSQL's drivers do as they are told in their DSN, for the sake of poolers.
	prepares bool
	ddl      []string
	// before runs ahead of ddl, in its transaction.
	before string
}

// common texts, in which {…} stands for the dialect's words.
const (
	takeText = `INSERT INTO {leases}{as} (family, name, slot, epoch, counter, token, owner, began, ends, waiter, waits)
VALUES (?, ?, ?, {nextEpoch}, {nextCounter}, ?, ?, {now}, {now} + ?, ?, 0)
`

	// Another may have taken and freed the row since this fence was counted, hence the condition on it. A row with the own
	// token was taken by an earlier try whose answer was lost.
	onConflict = `ON CONFLICT (family, name, slot) DO UPDATE SET
	epoch = excluded.epoch, counter = excluded.counter,
	token = excluded.token, owner = excluded.owner, began = excluded.began, ends = excluded.ends,
	waits = CASE WHEN l.waiter = excluded.token THEN 0 ELSE l.waits END
WHERE (l.ends <= excluded.began AND (l.waits <= excluded.began OR l.waiter = excluded.token) OR l.token = excluded.token)
	AND (excluded.epoch > l.epoch OR excluded.epoch = l.epoch AND excluded.counter > l.counter)
RETURNING epoch, counter`

	// MySQL assigns from left to right, MariaDB also all at once (SIMULTANEOUS_ASSIGNMENT): what a condition reads is
	// assigned after it, or does not change it. The answer's LAST_INSERT_ID is 0 if the row was not taken.
	onDuplicate = `ON DUPLICATE KEY UPDATE
	token = IF({free} AND {later}, VALUES(token), token),
	owner = IF({free} AND {later}, VALUES(owner), owner),
	began = IF({free} AND {later}, VALUES(began), began),
	waits = IF({free} AND {later} AND waiter = VALUES(token), 0, waits),
	ends = IF({free} AND {later}, VALUES(ends), ends),
	counter = IF({free} AND {later}, LAST_INSERT_ID(VALUES(counter)), counter + LAST_INSERT_ID(0)),
	epoch = IF({free}, GREATEST(epoch, VALUES(epoch)), epoch)`
	freeText  = `(ends <= VALUES(began) AND (waits <= VALUES(began) OR waiter = VALUES(token)) OR token = VALUES(token))`
	laterText = `(VALUES(epoch) > epoch OR VALUES(epoch) = epoch AND VALUES(counter) > counter)`

	ofRow = ` WHERE family = ? AND name = ? AND slot = ?`
)

// statements are the texts for one dialect and its tables.
type statements struct {
	draw    string // epoch -> the last insert id is the counter; no row if the epoch is another
	take    string // row…, [epoch, counter,] token, owner, ttl, waiter (empty) -> epoch, counter; the last insert id after draw
	look    string // row… -> epoch, counter, token, owner, time left, waiter, its time left
	renew   string // ttl, row…, epoch, counter
	release string // row…, epoch, counter
	wait    string // token, time, row…, token
	forget  string // token, token, row…, token, token
	busy    string // family, name -> slot, owner, time left
	list    string // -> family, name, slot, epoch, counter, owner, age, time left
	open    string
	reopen  string // does so where the server is not the one the epoch was raised on; "" if the dialect does not say
	raise   string // epoch
	epoch   string // -> epoch
	check   string // -> version
	ddl     []string
}

// version is that of the tables.
const version = 1

func (d *dialect) statements(n names) statements {
	t := func(text string) string { return d.words(n, text) }
	s := statements{
		draw:    t(d.draw),
		take:    t(takeText + d.take),
		look:    t(`SELECT epoch, counter, token, owner, ends - {now}, waiter, waits - {now} FROM {leases}` + ofRow),
		renew:   t(`UPDATE {leases} SET ends = {now} + ?` + ofRow + ` AND epoch = ? AND counter = ? AND ends > 0`),
		release: t(`UPDATE {leases} SET ends = 0` + ofRow + ` AND epoch = ? AND counter = ? AND ends > 0`),
		wait:    t(`UPDATE {leases} SET waiter = ?, waits = {now} + ?` + ofRow + ` AND (waits <= {now} OR waiter = ?)`),
		forget: t(`UPDATE {leases} SET ends = CASE WHEN token = ? THEN 0 ELSE ends END, waits = CASE WHEN waiter = ? THEN 0 ELSE waits END` +
			ofRow + ` AND (token = ? OR waiter = ?)`),
		busy:  t(`SELECT slot, owner, ends - {now} FROM {leases} WHERE family = ? AND name = ? AND ends > {now}`),
		list:  t(`SELECT family, name, slot, epoch, counter, owner, {now} - began, ends - {now} FROM {leases} WHERE ends > {now} ORDER BY family, name, slot`),
		open:  t(`UPDATE {epoch} SET epoch = {greatest}(epoch + 1, {now1000}), server = {server} WHERE id = 1 AND version = {version}{commits}`),
		raise: t(`UPDATE {epoch} SET epoch = {greatest}(epoch + 1, ?) WHERE id = 1 AND version = {version}{commits}`),
		epoch: t(`SELECT e.epoch FROM {epoch} e WHERE e.id = 1`),
		check: t(`SELECT e.version FROM {epoch} e WHERE e.id = 1`),
	}
	if d.server != noServer {
		s.reopen = s.open + t(` AND server <> {server}`)
	}
	for _, text := range d.ddl {
		s.ddl = append(s.ddl, t(text))
	}
	return s
}

// words puts the dialect's words into a common text.
func (d *dialect) words(n names, text string) string {
	as := " AS l"
	if d.draw != "" {
		as = ""
	}
	text = strings.NewReplacer("{free}", freeText, "{later}", laterText, "{nextEpoch}", d.epoch, "{nextCounter}", d.counter,
		"{commits}", d.commits).Replace(text)
	text = strings.NewReplacer("{leases}", n.leases(d), "{epoch}", n.epoch(d), "{index}", n.index(d), "{indexed}", n.indexed(d), "{now}", d.now, "{now1000}", d.now1000,
		"{greatest}", d.greatest, "{version}", strconv.Itoa(version), "{server}", d.server, "{as}", as).Replace(text)
	if !d.numbered {
		return text
	}
	parts := strings.Split(text, "?")
	for i := 1; i < len(parts); i++ {
		parts[i] = "$" + strconv.Itoa(i) + parts[i]
	}
	return strings.Join(parts, "")
}

func (d *dialect) quoted(schema, name string) string {
	q := d.quote
	if schema == "" {
		return q + name + q
	}
	return q + schema + q + "." + q + name + q
}

const (
	sqliteNow   = `CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)`
	postgresNow = `(EXTRACT(EPOCH FROM statement_timestamp()) * 1000000)::bigint`
	mysqlNow    = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))`

	storedEpoch = `(SELECT e.epoch FROM {epoch} e WHERE e.id = 1 AND e.server = {server})`
	noServer    = `0`
)

var dialects = []*dialect{
	{
		name: "sqlite", quote: `"`, now: sqliteNow + ` * 1000`, now1000: sqliteNow, greatest: "MAX", server: noServer,
		// One writes at a time, and nobody in between its reading and its writing.
		epoch: storedEpoch, counter: `MAX({now}, (SELECT COALESCE(MAX(c.counter), 0) + 1 FROM {leases} c))`,
		take: onConflict, prepares: true,
		ddl: []string{`CREATE TABLE IF NOT EXISTS {leases} (
	family  BLOB    NOT NULL,
	name    BLOB    NOT NULL,
	slot    INTEGER NOT NULL,
	epoch   INTEGER NOT NULL,
	counter INTEGER NOT NULL,
	token   BLOB    NOT NULL,
	owner   BLOB    NOT NULL,
	began   INTEGER NOT NULL,
	ends    INTEGER NOT NULL,
	waiter  BLOB    NOT NULL,
	waits   INTEGER NOT NULL,
	PRIMARY KEY (family, name, slot)
) WITHOUT ROWID`, `CREATE INDEX IF NOT EXISTS {index} ON {indexed} (counter)`, `CREATE TABLE IF NOT EXISTS {epoch} (
	id      INTEGER NOT NULL PRIMARY KEY,
	version INTEGER NOT NULL,
	epoch   INTEGER NOT NULL,
	server  INTEGER NOT NULL
)`, `INSERT INTO {epoch} (id, version, epoch, server) VALUES (1, {version}, 0, {server}) ON CONFLICT (id) DO NOTHING`},
	},
	{
		name: "postgres", quote: `"`, numbered: true, now: postgresNow, now1000: postgresNow + ` / 1000`, greatest: "GREATEST",
		// A sequence keeps those who take different keys from waiting for each other's commits, and survives a crash. It is
		// behind in a backup, though, and on a replica that lagged: but there the server began at another time.
		server: `(EXTRACT(EPOCH FROM pg_postmaster_start_time()) * 1000000)::bigint`,
		epoch:  storedEpoch, counter: `DEFAULT`, take: onConflict,
		// CREATE TABLE IF NOT EXISTS fails if another one is just creating it.
		before: `SELECT pg_advisory_xact_lock(7365637344)`,
		ddl: []string{`CREATE TABLE IF NOT EXISTS {leases} (
	family  bytea   NOT NULL,
	name    bytea   NOT NULL,
	slot    integer NOT NULL,
	epoch   bigint  NOT NULL,
	counter bigint  NOT NULL GENERATED BY DEFAULT AS IDENTITY,
	token   bytea   NOT NULL,
	owner   bytea   NOT NULL,
	began   bigint  NOT NULL,
	ends    bigint  NOT NULL,
	waiter  bytea   NOT NULL,
	waits   bigint  NOT NULL,
	PRIMARY KEY (family, name, slot)
) WITH (fillfactor = 50)`, `CREATE TABLE IF NOT EXISTS {epoch} (
	id      integer NOT NULL PRIMARY KEY,
	version integer NOT NULL,
	epoch   bigint  NOT NULL,
	server  bigint  NOT NULL
)`, `INSERT INTO {epoch} (id, version, epoch, server) VALUES (1, {version}, 0, 0) ON CONFLICT (id) DO NOTHING`},
	},
	{
		name: "mysql", quote: "`", now: mysqlNow, now1000: mysqlNow + ` DIV 1000`, greatest: "GREATEST", server: noServer,
		// The manual's way to count; auto-increment values are not in order on TiDB.
		draw:  `UPDATE {epoch} SET counter = LAST_INSERT_ID(GREATEST(counter + 1, {now})) WHERE id = 1 AND epoch = ?{commits}`,
		epoch: `?`, counter: `LAST_INSERT_ID(?)`, take: onDuplicate, prepares: true,
		commits: ` AND @@autocommit = 1`,
		ddl: []string{`CREATE TABLE IF NOT EXISTS {leases} (
	family  VARBINARY(512) NOT NULL,
	name    VARBINARY(512) NOT NULL,
	slot    INT            NOT NULL,
	epoch   BIGINT         NOT NULL,
	counter BIGINT         NOT NULL,
	token   VARBINARY(16)  NOT NULL,
	owner   VARBINARY(255) NOT NULL,
	began   BIGINT         NOT NULL,
	ends    BIGINT         NOT NULL,
	waiter  VARBINARY(16)  NOT NULL,
	waits   BIGINT         NOT NULL,
	PRIMARY KEY (family, name, slot)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`, `CREATE TABLE IF NOT EXISTS {epoch} (
	id      INT    NOT NULL PRIMARY KEY,
	version INT    NOT NULL,
	epoch   BIGINT NOT NULL,
	server  BIGINT NOT NULL,
	counter BIGINT NOT NULL
) ENGINE = InnoDB`, `INSERT IGNORE INTO {epoch} (id, version, epoch, server, counter) VALUES (1, {version}, 0, {server}, 0)`},
	},
}

func dialectNamed(name string) (*dialect, error) {
	var known []string
	for _, d := range dialects {
		if d.name == name {
			return d, nil
		}
		known = append(known, d.name)
	}
	return nil, fmt.Errorf("sqlstore: no dialect %.40q: there are %s", name, strings.Join(known, ", "))
}

// ask finds the dialect by what the database says of itself.
func ask(ctx context.Context, db *sql.DB) (*dialect, error) {
	var v string
	err := db.QueryRowContext(ctx, "SELECT version()").Scan(&v)
	switch {
	case err == nil && strings.Contains(v, "PostgreSQL"):
		return dialectNamed("postgres")
	case err == nil && v != "" && '0' <= v[0] && v[0] <= '9': // "8.4.2", "10.11.19-MariaDB", "8.0.11-TiDB-v8.5.6"
		return dialectNamed("mysql")
	case err == nil:
		return nil, fmt.Errorf("sqlstore: the database calls itself %.80q: say what it is like with WithDialect", v)
	}
	if db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&v) == nil {
		return dialectNamed("sqlite")
	}
	return nil, fmt.Errorf("sqlstore: the database does not say what it is: %w", err)
}

// transient is whether the statement ran into others, changed nothing and may pass when sent again: SQLite's busy file,
// and on the servers deadlocks, lock waits and serialization failures.
func transient(err error) bool {
	if err == nil || errors.Is(err, lease.ErrHeld) { // whose text has the key in it
		return false
	}
	if errors.Is(err, errOvertaken) {
		return true
	}
	switch sqlState(err) {
	case "":
	case "40001", "40P01", "55P03":
		return true
	default:
		return false
	}
	for _, text := range []string{"database is locked", "database table is locked", "SQLITE_BUSY", "Error 1213", "Error 1205"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// sqlState is PostgreSQL's code of an error, by pgx or lib/pq; "" if it has none.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if !errors.As(err, &e) {
		return ""
	}
	return e.SQLState()
}
