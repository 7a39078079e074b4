package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/mattn/go-sqlite3"

	_ "github.com/fencedsql/fencedsql/dialects/mysql"
	_ "github.com/fencedsql/fencedsql/dialects/postgres"
	_ "github.com/fencedsql/fencedsql/dialects/sqlite"
)

// engine is a kind of database that the command speaks to, through one driver.
type engine struct {
	name  string // also of the dialect
	label string // of the driver that reads a DSN, and how one looks
	form  string
	// connector opens connections. Its error shows nothing of the DSN.
	connector func(dsn string) (driver.Connector, error)
	version   string // a query
	product   string // what precedes the version, unless it says itself whose it is
	marker    func(n int) string
	demo      demoTables
	fences    fenceQueries
}

var engines = []*engine{
	{
		name: "sqlite", label: "github.com/mattn/go-sqlite3", form: "app.db or file:app.db?_busy_timeout=5000",
		connector: func(dsn string) (driver.Connector, error) { return sqliteConnector(dsn), nil },
		version:   "SELECT sqlite_version()", product: "SQLite ",
		marker: func(int) string { return "?" },
		demo:   sqliteDemo, fences: sqliteFences,
	},
	{
		name: "postgres", label: "github.com/jackc/pgx", form: "postgres://user:password@host:port/database",
		connector: func(dsn string) (driver.Connector, error) {
			config, err := pgx.ParseConfig(dsn)
			if err != nil {
				return nil, errors.New("it cannot be read") // err shows most of it
			}
			return stdlib.GetConnector(*config), nil
		},
		version: "SHOW server_version", product: "PostgreSQL ",
		marker: func(n int) string { return "$" + strconv.Itoa(n) },
		demo:   postgresDemo, fences: postgresFences,
	},
	{
		name: "mysql", label: "github.com/go-sql-driver/mysql", form: "user:password@tcp(host:port)/database",
		connector: func(dsn string) (driver.Connector, error) {
			config, err := mysql.ParseDSN(dsn)
			if err != nil {
				return nil, errors.New("it cannot be read")
			}
			config.Logger = &mysql.NopLogger{} // it would write to stderr what comes back as an error too
			return mysql.NewConnector(config)
		},
		version: "SELECT version()", product: "MySQL ",
		marker: func(int) string { return "?" },
		demo:   mysqlDemo, fences: mysqlFences,
	},
}

func engineNamed(name string) (*engine, error) {
	var known []string
	for _, e := range engines {
		if e.name == name {
			return e, nil
		}
		known = append(known, e.name)
	}
	if name == "" {
		return nil, fmt.Errorf("-engine is missing: it is one of %s", strings.Join(known, ", "))
	}
	return nil, fmt.Errorf("there is no engine %q: it is one of %s", name, strings.Join(known, ", "))
}

// The variables that give a DSN without showing it in the list of processes.
const (
	dsnEnv     = "FENCEDSQL_DSN"
	dataDSNEnv = "FENCEDSQL_DATA_DSN"
)

// given is the DSN of a flag, or else of the environment.
func given(flag, env string) string {
	if flag != "" {
		return flag
	}
	return os.Getenv(env)
}

// usable tells whether this binary has the engine's driver, and else why not.
func (e *engine) usable() error {
	if e.name == "sqlite" && !cgoEnabled {
		return errors.New("it uses SQLite through github.com/mattn/go-sqlite3, and this binary was built without cgo: " +
			"install a C compiler such as gcc, and build or run it with CGO_ENABLED=1")
	}
	return nil
}

// mark puts the engine's parameter markers into a text that has question marks.
func (e *engine) mark(text string) string {
	parts := strings.Split(text, "?")
	for i := 1; i < len(parts); i++ {
		parts[i] = e.marker(i) + parts[i]
	}
	return strings.Join(parts, "")
}

// reachLimit is how long a server may take to answer for the first time.
const reachLimit = 10 * time.Second

// open opens a database and sees to it that it answers. Its error shows nothing of the DSN.
func (e *engine) open(ctx context.Context, dsn string) (*sql.DB, error) {
	c, err := e.connector(dsn)
	if err != nil {
		return nil, fmt.Errorf("the DSN is none for %s: %w: want %s", e.label, err, e.form)
	}
	db := sql.OpenDB(c)
	ctx, cancel := context.WithTimeoutCause(ctx, reachLimit, fmt.Errorf("no answer within %v", reachLimit))
	defer cancel()
	if err = db.PingContext(ctx); err == nil {
		var one int
		err = db.QueryRowContext(ctx, "SELECT 1").Scan(&one) // a ping does not touch SQLite's file
	}
	if err == nil {
		return db, nil
	}
	db.Close()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, fmt.Errorf("the %s database at the DSN cannot be reached: %w", e.name, bare(err))
}

// existing is open for a database that must be there: SQLite makes a file that is not.
func (e *engine) existing(ctx context.Context, dsn string) (*sql.DB, error) {
	if e.name == "sqlite" {
		if _, err := os.Stat(fileOf(dsn)); err != nil {
			return nil, fmt.Errorf("the sqlite database at the DSN cannot be reached: %w", bare(err))
		}
	}
	return e.open(ctx, dsn)
}

// bare is the innermost error: drivers wrap it in parts of the DSN.
func bare(err error) error {
	for {
		var inner error
		switch e := err.(type) {
		case *net.DNSError: // has the host in its text
			return errors.New(e.Err)
		case interface{ Unwrap() error }:
			inner = e.Unwrap()
		case interface{ Unwrap() []error }: // one for each address, or for each way to connect to it
			if all := e.Unwrap(); len(all) > 0 {
				inner = all[len(all)-1]
			}
		}
		if inner == nil {
			return err
		}
		err = inner
	}
}

// sqliteConnector opens connections of go-sqlite3, which has no connector of its own.
type sqliteConnector string

func (c sqliteConnector) Connect(context.Context) (driver.Conn, error) {
	return c.Driver().Open(string(c))
}

func (c sqliteConnector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// dataSource is a file's name for go-sqlite3: a URI, so that no character of the folder's name has a meaning.
func dataSource(path, settings string) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: settings}).String()
}

// fileOf is the file that a DSN of go-sqlite3 names.
func fileOf(dsn string) string {
	path, _, _ := strings.Cut(dsn, "?")
	uri, isURI := strings.CutPrefix(path, "file:")
	if !isURI {
		return path
	}
	uri, _, _ = strings.Cut(uri, "#")
	if rest, ok := strings.CutPrefix(uri, "//"); ok { // an authority: none, or localhost
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			uri = rest[i:]
		}
	}
	if name, err := url.PathUnescape(uri); err == nil {
		return name
	}
	return uri
}
