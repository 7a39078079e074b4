package fencedsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/rewrite"
)

// contextless is the context of calls that come without one.
var contextless = context.WithValue(context.Background(), unfencedKey{}, false)

// authority is what the statement's context says about writes, or else what
// the context of BeginTx said.
func (c *conn) authority(ctx context.Context) authority {
	a := authorityOf(ctx)
	if c.tx.active && a.lease == nil && !a.unfenced {
		return c.tx.authority
	}
	return a
}

// execPlan runs the decision on a text for Exec.
func (c *conn) execPlan(ctx context.Context, s sender, p *plan, args []driver.NamedValue) (driver.Result, error) {
	if err := c.beforeStatement(ctx, p); err != nil {
		return nil, err
	}
	res, err := c.execDecided(ctx, s, p, args)
	c.afterStatement(ctx, p, err)
	return res, err
}

func (c *conn) execDecided(ctx context.Context, s sender, p *plan, args []driver.NamedValue) (driver.Result, error) {
	if l, to := c.ready(ctx, p, args); to != nil {
		res, err := s.exec(ctx, p.Text, to)
		return c.judgeReady(ctx, p, l, args, res, err)
	}
	l, err := c.admit(ctx, p)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return s.exec(ctx, p.text, args)
	}
	return c.execFenced(ctx, s, p, l, args)
}

// queryPlan runs the decision on a text for Query.
func (c *conn) queryPlan(ctx context.Context, s sender, p *plan, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.beforeStatement(ctx, p); err != nil {
		return nil, err
	}
	var rows driver.Rows
	l, err := c.admit(ctx, p)
	if err == nil {
		switch {
		case l == nil:
			if rows, err = s.query(ctx, p.text, args); err == nil && c.tx.active && c.autoCommit == nil && c.pool.lostTx != "" {
				// An error of the rows may be the end of the transaction.
				rows = newRows(ctx, c, &write{plan: p}, rows)
			}
		case p.Returns:
			rows, err = c.queryFenced(ctx, s, p, l, args)
		default:
			// Without RETURNING no rows come that could bring the count.
			if _, err = c.execFenced(ctx, s, p, l, args); err == nil {
				rows = noRows{}
			}
		}
	}
	c.afterStatement(ctx, p, err)
	return rows, err
}

// admit returns the lease under which a text is sent fenced, or none for one
// that is sent as it is; an error says that it is not sent.
func (c *conn) admit(ctx context.Context, p *plan) (*lease.Lease, error) {
	if p.Verdict == rewrite.Pass {
		return nil, nil
	}
	a := c.authority(ctx)
	if a.unfenced {
		return nil, nil
	}
	if p.Verdict == rewrite.Refuse {
		err := unfenceable(p.Refusal)
		c.pool.warn(ctx, err)
		return nil, err
	}
	var err error
	switch table := p.Guards[0].Table.Name; {
	case a.lease == nil && ctx == contextless:
		err = errNoLease(table, "the wrapped driver's method takes no context (it has no driver.ExecerContext, QueryerContext or StmtExecContext, StmtQueryContext), so that only the context of BeginTx can carry one")
	case a.lease == nil:
		err = errNoLease(table, "the context carries none; pass (*lease.Lease).Context(ctx), or fencedsql.Unfenced(ctx) for administration")
	case a.lease.Fence().IsZero():
		err = errNoLease(table, fmt.Sprintf("lease %q has no fence (a semaphore's has none); take one that has", a.lease.Key()))
	}
	if err != nil {
		c.pool.warn(ctx, err)
	}
	return a.lease, err
}

func (p *pool) warn(ctx context.Context, err error) {
	if p.logger != nil {
		p.logger.WarnContext(ctx, "write refused", "error", err)
	}
}

// write is one fenced statement about to be sent.
type write struct {
	*plan
	lease        *lease.Lease
	fence, bound driver.Value
}

// prepare checks what must hold before the fenced text is sent.
func (w *write) prepare(ctx context.Context, c *conn) error {
	t, f := w.Guards[0].Table, w.lease.Fence()
	e := &c.encoded
	if e.value == nil || e.fence != f || e.coding != codingOf(t) {
		value, err := t.Encoding.Encode(f)
		if err != nil {
			return fmt.Errorf("fencedsql: table %s: %w", t.Name, err)
		}
		bound := value
		if !t.Once {
			if bound, err = t.Encoding.Bound(f); err != nil {
				return fmt.Errorf("fencedsql: table %s: %w", t.Name, err)
			}
		}
		e.fence, e.coding, e.value, e.bound = f, codingOf(t), value, bound
	}
	w.fence, w.bound = e.value, e.bound
	if w.checked.Load() {
		return nil
	}
	for i, g := range w.Guards {
		info, err := c.pool.check(ctx, querier{c}, checkKey{g.Table, g.Name}, false)
		if err != nil {
			if errors.Is(err, ErrSchema) {
				c.pool.warn(ctx, err)
			}
			return err
		}
		if i == 0 && info.Key != nil {
			w.key.Store(&info.Key)
		}
	}
	w.checked.Store(true)
	return nil
}

// meansOneRow reports whether the arguments for the key are of types by which
// the engine finds one row at most.
func (p *plan) meansOneRow(args []driver.NamedValue) bool {
	types := p.key.Load()
	if types == nil {
		return true
	}
	for i, from := range p.Guards[0].Key {
		if from != rewrite.NoArg && int(from) <= len(args) && !fits(args[from-1].Value, (*types)[i]) {
			return false
		}
	}
	return true
}

// fits reports whether a value for a key column of that type means one row.
func fits(value driver.Value, t dialects.KeyType) bool {
	switch value.(type) {
	case int64, uint64, bool:
		return t == dialects.IntegerKey
	case string, []byte:
		return t == dialects.TextKey
	}
	return false
}

const (
	chunkArgs = 44  // with the allocator's header they fill one of its sizes, 1792 bytes
	smallArg  = 512 // bytes of a value; an idle connection may keep it alive
)

// ready is admit, prepare and arguments in short, for a fenced write that is
// like the connection's last: a direct plan whose tables were checked, under a
// lease whose fence is the one that was encoded. It returns that lease and the
// arguments for the plan's text, and none where the three have to look closer.
//
// It cuts the arguments from a chunk, which takes two thirds of the time of an
// allocation for each call. No argument is used twice, since a driver may keep
// what it is given, as it may under database/sql, and may append to it. All of
// a chunk stays in memory as long as a part of it, hence only small values.
func (c *conn) ready(ctx context.Context, p *plan, args []driver.NamedValue) (*lease.Lease, []driver.NamedValue) {
	l, ok := lease.FromContext(ctx)
	e := &c.encoded
	if !ok || !p.direct || e.value == nil || e.fence != l.Fence() || e.coding != p.coding || !p.checked.Load() ||
		len(args) != p.NumInput || !small(args) || p.Loose && !p.meansOneRow(args) {
		return nil, nil
	}
	n := len(p.Args)
	if c.chunk == nil || n > chunkArgs-c.given {
		if n > chunkArgs/4 {
			return nil, nil // they would waste too much of it
		}
		c.chunk, c.given = new([chunkArgs]driver.NamedValue), 0
	}
	to := c.chunk[c.given : c.given+n : c.given+n]
	c.given += n
	for i, from := range p.Args {
		v := &to[i]
		v.Ordinal = i + 1
		switch {
		case from > 0:
			v.Value = args[from-1].Value
		case from == rewrite.FenceArg:
			v.Value = e.value
		case from == rewrite.BoundArg:
			v.Value = e.bound
		}
	}
	return l, to
}

// small reports whether all arguments go by their position, and are values
// that take little memory and mean nothing else to any driver.
func small(args []driver.NamedValue) bool {
	for i := range args {
		if args[i].Name != "" {
			return false
		}
		switch v := args[i].Value.(type) {
		case nil, int64, float64, bool, time.Time, int, int32, uint64:
		case string:
			if len(v) > smallArg {
				return false
			}
		case []byte:
			if cap(v) > smallArg {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// changed reports whether the result counts rows.
func changed(res driver.Result) bool {
	n, err := res.RowsAffected()
	return err == nil && n != 0
}

// judgeReady judges what the driver made of the arguments that ready returned.
func (c *conn) judgeReady(ctx context.Context, p *plan, l *lease.Lease, args []driver.NamedValue, res driver.Result, err error) (driver.Result, error) {
	if err == nil && (p.probe == nil || changed(res)) {
		return res, nil
	}
	w := write{p, l, c.encoded.value, c.encoded.bound}
	return c.judgeExec(ctx, &w, args, res, err)
}

// arguments gives each parameter of our text its value: the caller's, as the
// engine would have numbered or named it, or the fence.
func (w *write) arguments(to []rewrite.Arg, args []driver.NamedValue) ([]driver.NamedValue, error) {
	options, err := driverOptions(args)
	if err != nil {
		return nil, err
	}
	n := len(args) - options
	byName := false
	for _, a := range args {
		byName = byName || a.Name != ""
	}
	if !byName && n != w.NumInput {
		return nil, fmt.Errorf("fencedsql: the statement takes %d arguments, got %d", w.NumInput, n)
	}
	out := make([]driver.NamedValue, options+len(to))
	copy(out, args[:options])
	for i, from := range to {
		v := &out[options+i]
		v.Ordinal = options + i + 1
		switch {
		case from == rewrite.FenceArg:
			v.Value = w.fence
		case from == rewrite.BoundArg:
			v.Value = w.bound
		case from == rewrite.NoArg:
		case !byName:
			v.Value = args[options+int(from)-1].Value
		default:
			if v.Value, err = w.byName(args, int(from)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// byName finds the argument of a parameter among named and positional ones, as
// the SQLite drivers do: a name counts before the position, and the last of
// two with one name. What is sent goes by position alone.
func (w *write) byName(args []driver.NamedValue, index int) (driver.Value, error) {
	name := ""
	if w.Names != nil {
		name = w.Names[index-1]
	}
	found := -1
	for i, a := range args {
		switch {
		case a.Name != "" && !slices.Contains(w.Names, a.Name):
			return nil, fmt.Errorf("fencedsql: the statement has no parameter named %q", a.Name)
		case a.Name != "" && a.Name == name:
			found = i
		case a.Name == "" && a.Ordinal == index && found < 0:
			found = i
		}
	}
	switch {
	case found >= 0:
		return args[found].Value, nil
	case name != "":
		return nil, fmt.Errorf("fencedsql: no argument is given for parameter %q", name)
	}
	return nil, fmt.Errorf("fencedsql: no argument is given for parameter %d", index)
}

// driverOptions counts the leading arguments that are no values but options
// of the driver: pgx takes its QueryExecMode and result formats that way.
func driverOptions(args []driver.NamedValue) (int, error) {
	for i, a := range args {
		switch a.Value.(type) {
		case nil, int64, float64, bool, []byte, string, time.Time:
			return i, nil
		}
		t := reflect.TypeOf(a.Value)
		switch t.String() {
		case "pgx.QueryExecMode", "pgx.QueryResultFormats", "pgx.QueryResultFormatsByOID":
			continue
		}
		if _, ok := t.MethodByName("RewriteQuery"); ok {
			return 0, fmt.Errorf("%w: a %v rewrites the statement after it was fenced; write $1, $2, … and pass the arguments in order", ErrUnfenceable, t)
		}
		return i, nil
	}
	return len(args), nil
}

// execFenced sends a fenced text and judges its count.
func (c *conn) execFenced(ctx context.Context, s sender, p *plan, l *lease.Lease, args []driver.NamedValue) (driver.Result, error) {
	w := write{plan: p, lease: l}
	if err := w.prepare(ctx, c); err != nil {
		return nil, err
	}
	if p.Loose && !w.meansOneRow(args) {
		loose, err := c.loosely(p)
		if err != nil {
			return nil, err
		}
		return c.execFenced(ctx, direct{c}, loose, l, args)
	}
	_, to := c.ready(ctx, p, args) // now that the fence is encoded
	if to == nil {
		var err error
		if to, err = w.arguments(p.Args, args); err != nil {
			return nil, err
		}
	}
	if p.First != nil {
		return c.execAfterFirst(ctx, &w, to, args)
	}
	if p.Count {
		rows, err := s.query(ctx, p.Text, to)
		if err != nil {
			return nil, c.judge(ctx, &w, err)
		}
		n, err := count(rows)
		if err != nil {
			return nil, c.judge(ctx, &w, err)
		}
		return counted(n), nil
	}
	res, err := s.exec(ctx, p.Text, to)
	return c.judgeExec(ctx, &w, args, res, err)
}

// judgeExec tells a refusal among what came of Exec.
func (c *conn) judgeExec(ctx context.Context, w *write, args []driver.NamedValue, res driver.Result, err error) (driver.Result, error) {
	if err != nil {
		return nil, c.judge(ctx, w, err)
	}
	if probe := w.Guards[0].Probe; probe != nil && !changed(res) {
		if err := c.probe(ctx, w, probe, args); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// counted is the result of a DELETE whose rows were counted. It inserted none,
// which has no id: 0, and no error where the bare driver gives none.
type counted int64

func (n counted) RowsAffected() (int64, error) { return int64(n), nil }
func (n counted) LastInsertId() (int64, error) { return 0, nil }

// queryFenced sends a fenced text that gives rows.
func (c *conn) queryFenced(ctx context.Context, s sender, p *plan, l *lease.Lease, args []driver.NamedValue) (driver.Rows, error) {
	w := write{plan: p, lease: l}
	if err := w.prepare(ctx, c); err != nil {
		return nil, err
	}
	_, to := c.ready(ctx, p, args)
	if to == nil {
		var err error
		if to, err = w.arguments(p.Args, args); err != nil {
			return nil, err
		}
	}
	if p.First != nil {
		return c.queryAfterFirst(ctx, &w, to, args)
	}
	inner, err := s.query(ctx, p.Text, to)
	if err != nil {
		return nil, c.judge(ctx, &w, err)
	}
	return newRows(ctx, c, &w, inner), nil
}

func count(rows driver.Rows) (n int64, err error) {
	row := make([]driver.Value, len(rows.Columns()))
	for err == nil {
		if err = rows.Next(row); err == nil {
			n++
		}
	}
	if err == io.EOF {
		err = nil
	}
	return n, errors.Join(err, rows.Close())
}

// execAfterFirst sends a DELETE after the SELECT that reads its rows' fences.
func (c *conn) execAfterFirst(ctx context.Context, w *write, to, args []driver.NamedValue) (res driver.Result, err error) {
	done, err := c.first(ctx, w, args)
	if err != nil {
		return nil, err
	}
	res, err = direct{c}.exec(ctx, w.Text, to)
	return res, done(err)
}

func (c *conn) queryAfterFirst(ctx context.Context, w *write, to, args []driver.NamedValue) (driver.Rows, error) {
	done, err := c.first(ctx, w, args)
	if err != nil {
		return nil, err
	}
	inner, err := direct{c}.query(ctx, w.Text, to)
	if err != nil {
		return nil, done(err)
	}
	r := newFencedRows(ctx, c, w, inner)
	r.done = done
	return wrapRows(r, inner), nil
}

// first sends the statement that goes before w's text. What it returns ends
// the transaction that holds both, if it began one.
func (c *conn) first(ctx context.Context, w *write, args []driver.NamedValue) (func(error) error, error) {
	to, err := w.arguments(w.First.Args, args)
	if err != nil {
		return nil, err
	}
	done := func(err error) error { return err }
	if !c.tx.active && c.mode&dialects.NoAutocommit == 0 {
		var tx driver.Tx
		if b, ok := c.Conn.(driver.ConnBeginTx); ok {
			tx, err = b.BeginTx(ctx, driver.TxOptions{})
		} else {
			tx, err = c.Conn.Begin() //lint:ignore SA1019 the wrapped driver may have nothing newer
		}
		if err != nil {
			return nil, err
		}
		done = func(err error) error {
			if err != nil {
				return errors.Join(err, tx.Rollback())
			}
			return tx.Commit()
		}
	}
	found, err := querier{c}.named(ctx, w.First.Text, to)
	if err != nil {
		return nil, done(err)
	}
	for _, row := range found {
		for i, v := range row {
			if v == nil {
				continue // an outer join found no row here
			}
			if err := c.compare(ctx, w, w.Guards[i].Table, v); err != nil {
				return nil, done(err)
			}
		}
	}
	return done, nil
}

// compare refuses the write over a stored value that is newer, or no fence.
func (c *conn) compare(ctx context.Context, w *write, t *rewrite.Table, v driver.Value) error {
	stored, err := t.Encoding.Decode(v)
	if err != nil || !wellFormed(t, stored, v) {
		return c.malformed(ctx, t)
	}
	if w.refuses(stored) {
		return c.fenced(ctx, w, stored)
	}
	return nil
}

// judge tells a refusal among the engine's errors.
func (c *conn) judge(ctx context.Context, w *write, err error) error {
	if err == driver.ErrSkip {
		return err
	}
	for _, g := range w.Guards {
		stored, known, refused := c.pool.dialect.Refused(err, g.Table.Fence, g.Table.Encoding)
		if !refused {
			continue
		}
		if known && !w.refuses(stored) {
			return c.malformed(ctx, g.Table)
		}
		return c.fenced(ctx, w, stored)
	}
	if w.Listed {
		c.pool.doubt(w.plan) // the column list may be the reason
	}
	return err
}

// probe tells, after a pinned write that changed no row, whether a newer
// fence was the reason: the row may also be gone, or not meet another
// condition, or have had these values already.
func (c *conn) probe(ctx context.Context, w *write, q *rewrite.Query, args []driver.NamedValue) error {
	to, err := w.arguments(q.Args, args)
	if err != nil {
		return err
	}
	found, err := querier{c}.named(ctx, q.Text, to)
	if err != nil {
		return err
	}
	for _, row := range found {
		if err := c.compare(ctx, w, w.Guards[0].Table, row[0]); err != nil {
			return err
		}
	}
	return nil
}

// refuses reports whether the stored fence is one that refuses the write.
func (w *write) refuses(stored lease.Fence) bool {
	f := w.lease.Fence()
	return f.Less(stored) || w.Guards[0].Table.Once && f == stored
}

// wellFormed reports whether the stored value is the encoding of the fence
// that it reads as: only such compare in the database as the numbers do. The
// empty text is below all and a usual default.
func wellFormed(t *rewrite.Table, f lease.Fence, stored driver.Value) bool {
	want, err := t.Encoding.Encode(f)
	return err == nil && (want == stored || stored == "")
}

// malformed refuses a write over a stored value that is no fence.
func (c *conn) malformed(ctx context.Context, t *rewrite.Table) error {
	err := errMalformed(t)
	c.refuse(ctx, err)
	return err
}

func errMalformed(t *rewrite.Table) error {
	return &SchemaError{
		Table:  t.Name,
		Reason: fmt.Sprintf("a row's column %s does not hold a fence in the %v encoding, so that it compares as no number", t.Fence, t.Encoding),
		DDL:    fmt.Sprintf("-- find the row, and write its fence with all of its %d digits: lease.Fence.Text", len(lease.Fence{}.Text())),
	}
}

func (c *conn) fenced(ctx context.Context, w *write, stored lease.Fence) error {
	var names []string // each once
	for _, g := range w.Guards {
		if !slices.Contains(names, g.Table.Name) {
			names = append(names, g.Table.Name)
		}
	}
	err := &FencedError{Table: strings.Join(names, " or "), Lease: w.lease.Key(), Fence: w.lease.Fence(), Stored: stored}
	c.refuse(ctx, err)
	return err
}

// refuse lets the transaction, if there is one, not commit for the error that
// refused a write in it.
func (c *conn) refuse(ctx context.Context, err error) {
	if !c.tx.active && c.mode&dialects.NoAutocommit != 0 {
		c.tx = transaction{active: true, textual: true, unseen: true}
	}
	c.tx.fail(err)
	c.pool.warn(ctx, err)
}
