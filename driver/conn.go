package fencedsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strings"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/rewrite"
)

// conn is a fenced connection. It has every optional method that database/sql
// knows; wrapConn shows those that the wrapped connection has.
type conn struct {
	driver.Conn // the wrapped connection
	pool        *pool

	// The wrapped connection's optional methods, nil where it has none.
	execer  driver.ExecerContext
	queryer driver.QueryerContext
	// autoCommit tells whether SQLite's own transaction still stands
	// (go-sqlite3 has it).
	autoCommit interface{ AutoCommit() bool }

	tx transaction

	mode      dialects.Mode
	modeKnown bool

	// recent has plans of texts that this connection sent lately, by the rules
	// of that number: a program sends the same few again and again, and most
	// of what it takes to find one in the pool's cache is to hash the text.
	recent      [recentPlans]*plan
	recentRules uint64

	// The last fence that was encoded: a holder sends it again and again.
	encoded struct {
		fence        lease.Fence
		coding       coding
		value, bound driver.Value
	}

	// chunk are arguments for the wrapped driver, the first of which it was given.
	chunk *[chunkArgs]driver.NamedValue
	given int
}

const (
	recentBits    = 5
	recentPlans   = 1 << recentBits
	recentMaxSize = 2 << 10 // bytes of a plan; a connection may keep it alive alone
)

// coding is how a table stores fences and compares them.
type coding struct {
	encoding lease.Encoding
	once     bool
}

func codingOf(t *rewrite.Table) coding { return coding{t.Encoding, t.Once} }

func newConn(p *pool, inner driver.Conn) driver.Conn {
	c := &conn{Conn: inner, pool: p}
	c.execer, _ = inner.(driver.ExecerContext)
	c.queryer, _ = inner.(driver.QueryerContext)
	c.autoCommit, _ = inner.(interface{ AutoCommit() bool })
	return wrapConn(c, inner)
}

// Unwrap returns the wrapped driver's own connection, for Conn.Raw. What is
// done on it goes by the fence.
func (c *conn) Unwrap() driver.Conn { return c.Conn }

// recall returns what plan would, if the text was sent lately; else nil.
func (c *conn) recall(text string) *plan {
	p := c.recent[recentSlot(text)]
	if p == nil || p.text != text || p.mode != c.mode || !c.modeKnown && !p.unread {
		return nil
	}
	if r := c.pool.made(); r == nil || r.number != c.recentRules {
		return nil
	}
	return p
}

// remember keeps the plan of a text for recall.
func (c *conn) remember(p *plan, r *rules) {
	if p == nil || p.size == 0 || p.size > recentMaxSize || p.Listed { // which may be dropped
		return
	}
	if c.recentRules != r.number {
		c.recent, c.recentRules = [recentPlans]*plan{}, r.number
	}
	c.recent[recentSlot(p.text)] = p
}

// recentSlot is a text's place in recent. Some of its bytes decide, which is
// quicker than all of them; texts that share a place take turns there.
func recentSlot(text string) uint64 {
	if len(text) < 16 {
		return uint64(len(text)) % recentPlans
	}
	middle, end := eightBytes(text[len(text)/2-8:]), eightBytes(text[len(text)-8:])
	return (middle ^ end<<1 ^ uint64(len(text))) * 0x9e3779b97f4a7c15 >> (64 - recentBits)
}

func eightBytes(s string) uint64 {
	_ = s[7] // makes one load of the eight
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// plan decides on a text. A nil plan stands for a text that passes when no
// table is registered.
func (c *conn) plan(ctx context.Context, text string) (*plan, *rules, error) {
	p, r, err := c.decide(ctx, text)
	if err == nil {
		c.remember(p, r)
	}
	return p, r, err
}

func (c *conn) decide(ctx context.Context, text string) (*plan, *rules, error) {
	r, err := c.pool.current()
	if err != nil {
		return nil, nil, err
	}
	if r == nil {
		if c.authority(ctx).unfenced {
			return nil, nil, nil
		}
		return nil, nil, errNoTables
	}
	p := r.plans.get(text, c.mode, false)
	if p != nil && (c.modeKnown || p.unread) {
		return p, r, nil
	}
	if !c.modeKnown && r.rewriter.Reads(text) {
		mode, err := c.pool.dialect.Mode(ctx, querier{c})
		if err != nil {
			if r.rewriter.Names(text) {
				return nil, nil, err
			}
			// It controls a transaction at most, and must not fail for our question: a failed transaction takes nothing
			// but its end.
			return newPlan(text, c.mode, false, r.rewriter.Plan(text, c.mode, nil)), r, nil
		}
		c.mode, c.modeKnown = mode, true
		if p = r.plans.get(text, c.mode, false); p != nil {
			return p, r, nil
		}
	}
	if len(text) <= cacheMaxEntry {
		// The plan keeps parts of it, and it may be a part of something large.
		text = strings.Clone(text)
	}
	var failed error
	decided := r.rewriter.Plan(text, c.mode, func(t *rewrite.Table, written dialects.Name, values int) []string {
		key := checkKey{t, written}
		info, err := c.pool.check(ctx, querier{c}, key, false)
		if err == nil && len(info.Columns) != values+1 {
			// The table may have changed since it was read.
			info, err = c.pool.check(ctx, querier{c}, key, true)
		}
		if err != nil {
			failed = err
			return nil
		}
		return info.Columns
	})
	if failed != nil {
		return nil, nil, failed
	}
	if decided.Refusal != nil && decided.Refusal.Columns {
		return newPlan(text, c.mode, false, decided), r, nil
	}
	return r.plans.put(text, c.mode, false, decided), r, nil
}

// loosely is the plan for arguments that do not mean one row by the key, which
// is made when the first such come.
func (c *conn) loosely(p *plan) (*plan, error) {
	r, err := c.pool.current()
	if err != nil {
		return nil, err
	}
	loose := r.plans.get(p.text, p.mode, true)
	if loose == nil {
		loose = r.plans.put(p.text, p.mode, true, r.rewriter.Loose(p.text, p.mode))
	}
	if loose.Refusal != nil {
		return nil, unfenceable(loose.Refusal)
	}
	return loose, nil
}

// ExecContext is there if the wrapped connection has it.
func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	p := c.recall(text)
	if p == nil {
		if text == operationText {
			return nil, driver.ErrSkip
		}
		var err error
		if p, _, err = c.plan(ctx, text); err != nil {
			return nil, err
		}
	}
	if p == nil || p.plain && !c.tx.active {
		return c.execer.ExecContext(ctx, text, args)
	}
	if p.quiet && !c.tx.active { // as execPlan does it, with fewer calls
		if l, to := c.ready(ctx, p, args); to != nil {
			res, err := c.execer.ExecContext(ctx, p.Text, to)
			return c.judgeReady(ctx, p, l, args, res, err)
		}
	}
	return c.execPlan(ctx, c, p, args)
}

// QueryContext is there if the wrapped connection has it.
func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	p := c.recall(text)
	if p == nil {
		if text == operationText {
			return c.operate(ctx, args)
		}
		var err error
		if p, _, err = c.plan(ctx, text); err != nil {
			return nil, err
		}
	}
	if p == nil || p.plain && !c.tx.active {
		return c.queryer.QueryContext(ctx, text, args)
	}
	return c.queryPlan(ctx, c, p, args)
}

// Exec is the old form of ExecContext. It carries no context, and so no lease
// but that of BeginTx.
func (c *conn) Exec(text string, args []driver.Value) (driver.Result, error) {
	p, _, err := c.plan(contextless, text)
	if err != nil {
		return nil, err
	}
	if p.plain && !c.tx.active {
		return c.Conn.(driver.Execer).Exec(text, args) //lint:ignore SA1019 the wrapped driver may have nothing newer
	}
	return c.execPlan(contextless, c, p, named(args))
}

// Query is the old form of QueryContext.
func (c *conn) Query(text string, args []driver.Value) (driver.Rows, error) {
	if text == operationText {
		return c.operate(contextless, named(args))
	}
	p, _, err := c.plan(contextless, text)
	if err != nil {
		return nil, err
	}
	if p.plain && !c.tx.active {
		return c.Conn.(driver.Queryer).Query(text, args) //lint:ignore SA1019 the wrapped driver may have nothing newer
	}
	return c.queryPlan(contextless, c, p, named(args))
}

// Prepare is PrepareContext without a context.
func (c *conn) Prepare(text string) (driver.Stmt, error) {
	return c.prepare(contextless, text)
}

// PrepareContext is there if the wrapped connection has it.
func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	return c.prepare(ctx, text)
}

// sender sends a text that was decided on. It is the connection, or a
// prepared statement, which has sent its text already.
type sender interface {
	exec(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error)
	query(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error)
}

// exec sends a text on the wrapped connection. It returns ErrSkip, with
// nothing sent, where that wants it prepared.
func (c *conn) exec(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if c.execer != nil {
		return c.execer.ExecContext(ctx, text, args)
	}
	//lint:ignore SA1019 the wrapped driver may have nothing newer
	if old, ok := c.Conn.(driver.Execer); ok {
		values, err := unnamed(args)
		if err != nil {
			return nil, err
		}
		return old.Exec(text, values)
	}
	return nil, driver.ErrSkip
}

func (c *conn) query(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if c.queryer != nil {
		return c.queryer.QueryContext(ctx, text, args)
	}
	//lint:ignore SA1019 the wrapped driver may have nothing newer
	if old, ok := c.Conn.(driver.Queryer); ok {
		values, err := unnamed(args)
		if err != nil {
			return nil, err
		}
		return old.Query(text, values)
	}
	return nil, driver.ErrSkip
}

// direct is the connection for statements of our own: it prepares those that
// the wrapped connection does not take directly.
type direct struct{ *conn }

func (d direct) exec(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	res, err := d.conn.exec(ctx, text, args)
	if !errors.Is(err, driver.ErrSkip) {
		return res, err
	}
	st, err := d.prepareInner(ctx, text)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	return execStmt(ctx, st, args)
}

func (d direct) query(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := d.conn.query(ctx, text, args)
	if !errors.Is(err, driver.ErrSkip) {
		return rows, err
	}
	st, err := d.prepareInner(ctx, text)
	if err != nil {
		return nil, err
	}
	rows, err = queryStmt(ctx, st, args)
	if err != nil {
		st.Close()
		return nil, err
	}
	r := newFencedRows(ctx, d.conn, &write{plan: passed}, rows)
	r.done = func(err error) error { return errors.Join(err, st.Close()) }
	return wrapRows(r, rows), nil
}

// passed is the plan of a statement that is not judged.
var passed = newPlan("", 0, false, &rewrite.Plan{})

// querier reads all rows of a statement of our own.
type querier struct{ c *conn }

func (q querier) Query(ctx context.Context, text string, args ...driver.Value) ([][]driver.Value, error) {
	return q.named(ctx, text, named(args))
}

func (q querier) named(ctx context.Context, text string, args []driver.NamedValue) ([][]driver.Value, error) {
	rows, err := direct{q.c}.query(ctx, text, args)
	if err != nil {
		return nil, err
	}
	var out [][]driver.Value
	for {
		row := make([]driver.Value, len(rows.Columns()))
		if err = rows.Next(row); err != nil {
			break
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				row[i] = string(b) // the driver may reuse the bytes
			}
		}
		out = append(out, row)
	}
	if cerr := rows.Close(); err == io.EOF {
		err = cerr
	}
	return out, err
}

func (c *conn) prepareInner(ctx context.Context, text string) (driver.Stmt, error) {
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, text)
	}
	return c.Conn.Prepare(text)
}

// Begin is BeginTx without a context or options.
func (c *conn) Begin() (driver.Tx, error) {
	return c.begin(contextless, false, func() (driver.Tx, error) {
		return c.Conn.Begin() //lint:ignore SA1019 the wrapped driver may have nothing newer
	})
}

// BeginTx is there if the wrapped connection has it.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.begin(ctx, opts.ReadOnly, func() (driver.Tx, error) {
		return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	})
}

// Ping is there if the wrapped connection has it.
func (c *conn) Ping(ctx context.Context) error { return c.Conn.(driver.Pinger).Ping(ctx) }

// ResetSession is there if the wrapped connection has it.
func (c *conn) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

// IsValid is there if the wrapped connection has it.
func (c *conn) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

// CheckNamedValue is there if the wrapped connection has it.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	return c.Conn.(driver.NamedValueChecker).CheckNamedValue(v)
}

func named(args []driver.Value) []driver.NamedValue {
	if len(args) == 0 {
		return nil
	}
	out := make([]driver.NamedValue, len(args))
	for i, v := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return out
}

func unnamed(args []driver.NamedValue) ([]driver.Value, error) {
	out := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errors.New("fencedsql: the wrapped driver does not take named arguments")
		}
		out[i] = a.Value
	}
	return out, nil
}
