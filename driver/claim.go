package fencedsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/rewrite"
)

// Queryer is what Claim and Raise need of a database: a *sql.DB, *sql.Conn or
// *sql.Tx opened with fencedsql, or what passes on to one: *sqlx.Tx, gorm's
// tx.Statement.ConnPool, ent's transaction with the feature sql/execquery. Of
// bun, give Tx.Tx or DB.DB: its own write the arguments into the text.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Claim takes a row as a queue worker does: it adds one to the row's fence and
// returns a lease holding the new number, so that whoever claimed the row
// before is refused from that moment. The table must be registered with a Key;
// key gives its values in that order. The context needs no lease. Call Lose on
// the lease when the work is done.
//
// Claim keeps nobody waiting: the last to claim is the one who can write. For
// work on more than one row, or that one holder at a time must do, hold a key
// of the lease store in lease/sqlstore, whose documentation compares the two.
//
// No such row is sql.ErrNoRows, and nothing was written. After any other error
// it is not known whether the row was claimed; a retry is safe, since it
// claims the row again with a larger fence.
func Claim(ctx context.Context, db Queryer, table string, key ...any) (*lease.Lease, error) {
	op := &operation{table: table, claim: true}
	if err := op.run(ctx, db, key); err != nil {
		return nil, err
	}
	name := op.table
	for _, k := range key {
		name += fmt.Sprintf("/%v", k)
	}
	return lease.New(name, op.fence), nil
}

// Raise writes the fence of the context's lease into a row and changes nothing
// else: a holder shuts older ones out before its first write (sqlstore.First
// has Hold do so at its start). A newer fence in the row is ErrFenced and no
// such row sql.ErrNoRows; nothing was written then. A retry is safe.
func Raise(ctx context.Context, db Queryer, table string, key ...any) error {
	return (&operation{table: table}).run(ctx, db, key)
}

// operation is a Claim or a Raise on its way to the connection, which it
// reaches as a query: database/sql lets nothing else through to the driver of
// a DB, a Conn and a Tx alike.
type operation struct {
	table string
	claim bool
	fence lease.Fence
	taken bool // some connection of ours has seen it
}

type operationKey struct{}

// operationText is no SQL, so that a database without fencedsql refuses it.
const operationText = "fencedsql Claim or Raise"

func (op *operation) run(ctx context.Context, db Queryer, key []any) error {
	rows, err := db.QueryContext(context.WithValue(ctx, operationKey{}, op), operationText, key...)
	if err == nil {
		if err = rows.Err(); err == nil {
			err = rows.Close()
		}
	}
	if err != nil && !op.taken && ctx.Err() == nil {
		return fmt.Errorf("fencedsql: Claim and Raise found no connection of a database that was opened with fencedsql: %w", err)
	}
	return err
}

// operationStmt carries an operation through drivers that prepare everything.
type operationStmt struct{ c *conn }

func (s operationStmt) Close() error  { return nil }
func (s operationStmt) NumInput() int { return -1 }
func (s operationStmt) Exec([]driver.Value) (driver.Result, error) {
	return nil, errors.New("fencedsql: call fencedsql.Claim or Raise")
}
func (s operationStmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.c.operate(contextless, named(args))
}
func (s operationStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.operate(ctx, args)
}

// operate runs the operation in the context.
func (c *conn) operate(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	op, ok := ctx.Value(operationKey{}).(*operation)
	if !ok {
		return nil, errors.New("fencedsql: call fencedsql.Claim or Raise")
	}
	op.taken = true
	r, err := c.pool.current()
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, errNoTables
	}
	t, name, err := r.table(c.pool.dialect, op.table)
	if err != nil {
		return nil, err
	}
	switch {
	case t == nil:
		return nil, fmt.Errorf("fencedsql: table %q is not registered", op.table)
	case len(t.Key) == 0:
		return nil, fmt.Errorf("fencedsql: table %s is registered without a Key, so that no row of it can be named", t.Name)
	case len(args) == 0:
		return nil, fmt.Errorf("fencedsql: table %s has the key (%s), and no value arrives; where an ORM's handle writes arguments into the text, give the *sql.DB or *sql.Tx beneath it", t.Name, strings.Join(t.Key, ", "))
	case len(args) != len(t.Key):
		return nil, fmt.Errorf("fencedsql: table %s has the key (%s), got %d values", t.Name, strings.Join(t.Key, ", "), len(args))
	}
	op.table = t.Name
	info, err := c.pool.check(ctx, querier{c}, checkKey{t, name}, false)
	if err != nil {
		return nil, err
	}
	loose := false
	for i, arg := range args {
		loose = loose || info.Key != nil && !fits(arg.Value, info.Key[i])
	}
	row := rowOf{c.pool.dialect, t, name}
	statement := &plan{Plan: &rewrite.Plan{}}
	if err := c.beforeStatement(ctx, statement); err != nil {
		return nil, err
	}
	if loose { // no assertion can take the key's place, as it does with a pinned write
		err = c.oneRow(ctx, row, args)
	}
	switch {
	case err != nil:
	case op.claim:
		op.fence, err = c.claim(ctx, row, args)
	default:
		err = c.raise(ctx, row, args)
	}
	c.afterStatement(ctx, statement, err)
	if err != nil {
		return nil, err
	}
	return noRows{}, nil
}

// oneRow refuses a key that means several rows.
func (c *conn) oneRow(ctx context.Context, row rowOf, key []driver.NamedValue) error {
	found, err := querier{c}.named(ctx, row.read(), key)
	if err == nil && len(found) > 1 {
		err = fmt.Errorf("fencedsql: table %s: the key means %d rows, since a value is not of its column's type (%s); give an integer for an integer column, and a text for a text column",
			row.table.Name, len(found), strings.Join(row.table.Key, ", "))
	}
	return err
}

// table finds a registered table by its name. The name with which statements
// are written has a schema if either has.
func (r *rules) table(d dialects.Dialect, name string) (*rewrite.Table, dialects.Name, error) {
	written, err := dialects.ParseName(name)
	if err != nil {
		return nil, written, fmt.Errorf("fencedsql: %w", err)
	}
	for i := range r.set.tables {
		t := &r.set.tables[i]
		registered, err := dialects.ParseName(t.Name)
		if err != nil || !d.Matches(registered, written) {
			continue
		}
		if written.Schema == "" {
			written = registered
		}
		return t, written, nil
	}
	return nil, written, nil
}

// rowOf writes the statements on one row.
type rowOf struct {
	dialects.Dialect
	table *rewrite.Table
	name  dialects.Name
}

func (r rowOf) from() string {
	if r.name.Schema == "" {
		return r.Quote(r.name.Table)
	}
	return r.Quote(r.name.Schema) + "." + r.Quote(r.name.Table)
}

// where is the condition on the key; its markers have the numbers from n.
func (r rowOf) where(n int) string {
	var b strings.Builder
	for i, k := range r.table.Key {
		b.WriteString([]string{" WHERE ", " AND "}[min(i, 1)])
		b.WriteString(r.Quote(k) + " = " + r.Placeholder(n+i))
	}
	return b.String()
}

func (r rowOf) marker(n int) string { return r.Cast(r.Placeholder(n), r.table.Encoding) }

func (r rowOf) read() string {
	return "SELECT " + r.Quote(r.table.Fence) + " FROM " + r.from() + r.where(1) + r.Lock()
}

// write sets the fence where its old value compares so.
func (r rowOf) write(compare string) string {
	fence := r.Quote(r.table.Fence)
	return "UPDATE " + r.from() + " SET " + fence + " = " + r.marker(1) + r.where(2) +
		" AND " + fence + compare + r.marker(2+len(r.table.Key))
}

// claim adds one to the row's fence, comparing and swapping: no engine adds to
// 128 bits. Each round that fails is one in which another claim went through.
func (c *conn) claim(ctx context.Context, row rowOf, key []driver.NamedValue) (lease.Fence, error) {
	none := lease.Fence{}
	if c.tx.active && row.Lock() == "" {
		// In a deferred transaction of SQLite a write after a read can fail
		// where a write at once would have waited.
		touch := "UPDATE " + row.from() + " SET " + row.Quote(row.table.Fence) + " = " + row.Quote(row.table.Fence) + row.where(1)
		if _, err := (direct{c}).exec(ctx, touch, key); err != nil {
			return none, err
		}
	}
	var before driver.Value
	for {
		if err := ctx.Err(); err != nil {
			return none, err
		}
		found, err := querier{c}.named(ctx, row.read(), key)
		if err != nil {
			return none, err
		}
		if len(found) == 0 {
			return none, sql.ErrNoRows
		}
		enc := row.table.Encoding
		stored, err := enc.Decode(found[0][0])
		// A round that failed, and yet the value is the same: it compares with
		// itself as unequal, and is no fence of this encoding.
		if err != nil || !wellFormed(row.table, stored, found[0][0]) || before != nil && before == found[0][0] {
			return none, errMalformed(row.table)
		}
		before = found[0][0]
		next, err := stored.Next()
		if err == nil {
			_, err = enc.Bound(next)
		}
		if err != nil {
			return none, fmt.Errorf("fencedsql: table %s: %w", row.table.Name, err)
		}
		value, err := enc.Encode(next)
		if err != nil {
			return none, fmt.Errorf("fencedsql: table %s: %w", row.table.Name, err)
		}
		res, err := direct{c}.exec(ctx, row.write(" = "), around(value, key, found[0][0]))
		if err != nil {
			return none, err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			return next, err
		}
	}
}

func (c *conn) raise(ctx context.Context, row rowOf, key []driver.NamedValue) error {
	t := row.table
	if t.Once {
		return unfenceable(&rewrite.Refusal{Table: t.Name, Reason: "it is registered Once, and Raise would use up the lease's one write of the row", Hint: "write the row itself"})
	}
	p := &plan{Plan: &rewrite.Plan{
		Verdict:  rewrite.Fence,
		Text:     row.write(" < "),
		NumInput: len(key),
		Args:     []rewrite.Arg{rewrite.FenceArg},
		Guards:   []rewrite.Guard{{Table: t, Name: row.name, Probe: &rewrite.Query{Text: row.read()}}},
	}}
	for i := range key {
		p.Args = append(p.Args, rewrite.Arg(i+1))
		p.Guards[0].Probe.Args = append(p.Guards[0].Probe.Args, rewrite.Arg(i+1))
	}
	p.Args = append(p.Args, rewrite.BoundArg)
	l, err := c.admit(ctx, p)
	if err != nil {
		return err
	}
	if l == nil {
		return errNoLease(t.Name, "Raise has no fence to write under fencedsql.Unfenced")
	}
	res, err := c.execFenced(ctx, direct{c}, p, l, key)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	// Gone, or the fence was there already and the engine counts changes only.
	found, err := querier{c}.named(ctx, row.read(), key)
	if err == nil && len(found) == 0 {
		err = sql.ErrNoRows
	}
	return err
}

// around puts the key between the two values of rowOf.write.
func around(first driver.Value, key []driver.NamedValue, last driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, 0, len(key)+2)
	out = append(out, driver.NamedValue{Value: first})
	out = append(out, key...)
	out = append(out, driver.NamedValue{Value: last})
	for i := range out {
		out[i].Ordinal = i + 1
	}
	return out
}
