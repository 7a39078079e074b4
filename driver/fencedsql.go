// Package fencedsql is a database/sql driver that fences writes.
//
// It wraps a real driver. A program names its fenced tables with
// [RegisterTable], opens the database with sql.Open("fencedsql",
// "<driver>:<dsn>"), and passes a lease in the context. Every INSERT, UPDATE
// and DELETE of a fenced table then carries the lease's fence: it stores the
// fence in the rows it writes, and it is refused as a whole with [ErrFenced]
// when one of them was written under a newer lease. All other statements go
// through untouched.
//
// A statement walks one way: conn.go and stmt.go take it from database/sql,
// package rewrite decides what becomes of its text, fence.go runs the decision
// and judges the result.
package fencedsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fencedsql/fencedsql/dialects"
	"github.com/fencedsql/fencedsql/lease"
	"github.com/fencedsql/fencedsql/rewrite"
)

func init() { sql.Register("fencedsql", &fencedDriver{open: openNamed}) }

// Table is a fenced table. The fences of one table must come from one lease
// store or lock service: numbers of two sources do not compare.
type Table struct {
	// Name is the table's name, with its schema if that should count:
	// "chats", "app.chats". A part that holds a dot goes in double quotes.
	Name string
	// Fence is the column that stores the fence; "" means "fence".
	Fence string
	// Key are the columns of the primary key or of a unique index. A write
	// with a value for each of them in its WHERE is fenced by a plain
	// condition; others, and all writes of a table without Key, by an
	// assertion, which is as safe.
	Key []string
	// Encoding is how the column holds a fence: lease.Text in a text column of
	// at least 40 characters, the default, or lease.Int64.
	Encoding lease.Encoding
	// Once lets each fence write a row no more than once: a second write of
	// the same row under one lease is refused with ErrFenced.
	Once bool
}

// tableSet is an immutable set of tables, shared by the pools that use it.
type tableSet struct{ tables []rewrite.Table }

// add returns the set with more tables. The same table registered again is no
// mistake, with other columns it is.
func (s *tableSet) add(tables []Table) (*tableSet, error) {
	next := &tableSet{}
	if s != nil {
		next.tables = slices.Clone(s.tables)
	}
	for _, t := range tables {
		name, err := dialects.ParseName(t.Name)
		if err != nil {
			return nil, fmt.Errorf("fencedsql: %w", err)
		}
		if t.Fence == "" {
			t.Fence = "fence"
		}
		if slices.Contains(t.Key, "") {
			return nil, fmt.Errorf("fencedsql: table %s: a column of Key has an empty name", name)
		}
		if slices.ContainsFunc(t.Key, func(k string) bool { return strings.EqualFold(k, t.Fence) }) {
			return nil, fmt.Errorf("fencedsql: table %s: column %s is the fence and in Key", name, t.Fence)
		}
		if t.Encoding != lease.Text && t.Encoding != lease.Int64 {
			return nil, fmt.Errorf("fencedsql: table %s: unknown encoding %v: use lease.Text or lease.Int64", name, t.Encoding)
		}
		t.Key = slices.Clone(t.Key)
		i := slices.IndexFunc(next.tables, func(o rewrite.Table) bool {
			other, _ := dialects.ParseName(o.Name)
			return strings.EqualFold(other.String(), name.String())
		})
		if i < 0 {
			next.tables = append(next.tables, rewrite.Table(t))
			continue
		}
		if o := next.tables[i]; o.Fence != t.Fence || o.Encoding != t.Encoding || o.Once != t.Once || !slices.Equal(o.Key, t.Key) {
			return nil, fmt.Errorf("fencedsql: table %s is registered twice, with different columns or options", name)
		}
	}
	return next, nil
}

var registered struct {
	sync.Mutex
	set atomic.Pointer[tableSet]
}

// RegisterTable names fenced tables for every database opened without
// [WithTables], those that are open already too. It panics when a name is
// empty or malformed and when a table is registered again with other columns.
func RegisterTable(tables ...Table) {
	registered.Lock()
	defer registered.Unlock()
	next, err := registered.set.Load().add(tables)
	if err != nil {
		panic(err.Error())
	}
	registered.set.Store(next)
}

// Option is an option of [Open] and [NewConnector].
type Option func(*pool) error

// WithTables names the fenced tables of this database alone, instead of those
// of [RegisterTable]. Several are added up.
func WithTables(tables ...Table) Option {
	return func(p *pool) (err error) {
		p.own, err = p.own.add(tables)
		return err
	}
}

// WithDialect names the dialect, for a driver that is registered with
// database/sql under a name of your own: "sqlite", "postgres" or "mysql".
func WithDialect(name string) Option {
	return func(p *pool) (err error) {
		p.dialect, err = dialects.Get(name)
		if err != nil {
			err = fmt.Errorf("fencedsql: %w", err)
		}
		return err
	}
}

// WithLogger logs refused writes at level Warn: the error that the call
// returns, which names the table and the reason, and the fences where they
// are it. No statement and no argument is logged.
func WithLogger(l *slog.Logger) Option {
	return func(p *pool) error {
		p.logger = l
		return nil
	}
}

// Open opens a database like sql.Open(driverName, dsn), fenced. Like it, it
// need not connect, and validates its arguments only.
func Open(driverName, dsn string, opts ...Option) (*sql.DB, error) {
	c, err := openConnector(driverName, dsn, nil, opts...)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// NewConnector fences a connector of your own, for sql.OpenDB.
func NewConnector(c driver.Connector, opts ...Option) (driver.Connector, error) {
	if c == nil {
		return nil, errors.New("fencedsql: NewConnector of nil")
	}
	return newConnector(c, "", nil, opts...)
}

// Unfenced returns a context whose statements go through as they are written,
// with no lease and no fence: for migrations and administration. A lease added
// to the context later takes effect again.
func Unfenced(ctx context.Context) context.Context {
	return context.WithValue(lease.Without(ctx), unfencedKey{}, true)
}

type unfencedKey struct{}

// authority is what a context says about writes.
type authority struct {
	lease    *lease.Lease
	unfenced bool
}

func authorityOf(ctx context.Context) authority {
	if l, ok := lease.FromContext(ctx); ok {
		return authority{lease: l} // Unfenced takes away the lease that came before it
	}
	unfenced, _ := ctx.Value(unfencedKey{}).(bool)
	return authority{unfenced: unfenced}
}

// fencedDriver is what is registered with database/sql, and what DB.Driver
// gives: tracers and loggers open a database again through it, which must be
// fenced then as well.
type fencedDriver struct {
	open  opener
	inner driver.Driver
}

// opener makes the fenced connector of a data source name.
type opener func(dsn string) (driver.Connector, error)

// Open is never used by database/sql, since OpenConnector is there.
func (d *fencedDriver) Open(dsn string) (driver.Conn, error) {
	c, err := d.open(dsn)
	if err != nil {
		return nil, err
	}
	return c.Connect(context.Background())
}

func (d *fencedDriver) OpenConnector(dsn string) (driver.Connector, error) { return d.open(dsn) }

// Unwrap returns the wrapped driver's own value. What that opens is not fenced.
func (d *fencedDriver) Unwrap() driver.Driver { return d.inner }

// openNamed takes the data source names of sql.Open("fencedsql", …).
func openNamed(dsn string) (driver.Connector, error) {
	name, rest, ok := strings.Cut(dsn, ":")
	if strings.HasPrefix(rest, "//") && (name == "postgres" || name == "postgresql") {
		return openConnector("pgx", dsn, openNamed)
	}
	if !ok || name == "" {
		return nil, errors.New(`fencedsql: the data source name must begin with the driver's name, as in "sqlite3:app.db", "pgx:postgres://…" or "mysql:user:password@tcp(host)/db"`)
	}
	// What stands before the colon may be anything, a secret too, if it is no driver's name.
	if _, known := imports[name]; !known && !slices.Contains(sql.Drivers(), name) {
		return nil, fmt.Errorf("fencedsql: the data source name does not begin with the name of a driver that is registered with database/sql (%s); write \"<driver>:<dsn>\", and import the driver's package", strings.Join(sql.Drivers(), ", "))
	}
	return openConnector(name, rest, openNamed)
}

// imports are the packages of the drivers that a user may have forgotten.
var imports = map[string]string{
	"sqlite3":  "github.com/mattn/go-sqlite3",
	"sqlite":   "modernc.org/sqlite",
	"pgx":      "github.com/jackc/pgx/v5/stdlib",
	"postgres": "github.com/lib/pq",
	"mysql":    "github.com/go-sql-driver/mysql",
}

func openConnector(driverName, dsn string, open opener, opts ...Option) (driver.Connector, error) {
	if driverName == "fencedsql" {
		return nil, errors.New("fencedsql: it cannot wrap itself: name the real driver")
	}
	if !slices.Contains(sql.Drivers(), driverName) {
		if path, ok := imports[driverName]; ok {
			return nil, fmt.Errorf("fencedsql: driver %q is not linked in: add import _ %q", driverName, path)
		}
		return nil, fmt.Errorf("fencedsql: no driver %q is registered with database/sql (there are %s): import its package", driverName, strings.Join(sql.Drivers(), ", "))
	}
	// database/sql gives out a driver only through a DB; this one never connects.
	db, err := sql.Open(driverName, dsn)
	if err != nil {
		return nil, err
	}
	drv := db.Driver()
	if err := db.Close(); err != nil {
		return nil, err
	}
	c, err := connectorOf(drv, dsn)
	if err != nil {
		return nil, err
	}
	return newConnector(c, driverName, open, opts...)
}

func connectorOf(drv driver.Driver, dsn string) (driver.Connector, error) {
	if dc, ok := drv.(driver.DriverContext); ok {
		return dc.OpenConnector(dsn)
	}
	return dsnConnector{drv, dsn}, nil
}

// dsnConnector is the connector of a driver that has none of its own.
type dsnConnector struct {
	drv driver.Driver
	dsn string
}

func (c dsnConnector) Connect(context.Context) (driver.Conn, error) { return c.drv.Open(c.dsn) }
func (c dsnConnector) Driver() driver.Driver                        { return c.drv }

// connector opens fenced connections of one pool.
type connector struct {
	inner  driver.Connector
	pool   *pool
	driver *fencedDriver
}

// newConnector fences a connector. open makes others like it; nil stands for
// one that takes the wrapped driver's own data source names.
func newConnector(inner driver.Connector, driverName string, open opener, opts ...Option) (driver.Connector, error) {
	drv, p := inner.Driver(), &pool{}
	for _, o := range opts {
		if err := o(p); err != nil {
			return nil, err
		}
	}
	if p.dialect == nil {
		var err error
		if p.dialect, err = dialects.For(driverName, drv); err != nil {
			return nil, fmt.Errorf("fencedsql: %w", err)
		}
	}
	p.lostTx = p.dialect.LostTx()
	if open == nil {
		open = func(dsn string) (driver.Connector, error) {
			c, err := connectorOf(drv, dsn)
			if err != nil {
				return nil, err
			}
			return newConnector(c, driverName, nil, opts...)
		}
	}
	return wrapConnector(&connector{inner, p, &fencedDriver{open, drv}}, inner), nil
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return newConn(c.pool, inner), nil
}

// Driver returns a driver whose connections are fenced as this connector's
// are. It has a method Unwrap() driver.Driver.
func (c *connector) Driver() driver.Driver { return c.driver }

// Close closes the wrapped connector. It is there if that one has it.
func (c *connector) Close() error { return c.inner.(io.Closer).Close() }
