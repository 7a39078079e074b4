package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// dialect is how a family of drivers writes and opens a DSN. No error of it
// holds a DSN: they have passwords.
type dialect struct {
	// join gives base with another database (base's own if "") and further
	// parameters, each "name=value" with the value as it is meant, unescaped.
	join func(base, database string, params []string) (string, error)
	// open gives a pool for this package's own use.
	open func(dsn string) (*sql.DB, error)
	// create and drop are statements with a place for a quoted name.
	quote        func(name string) string
	create, drop string
}

var postgresDialect = dialect{
	join:   joinPostgres,
	open:   openPostgres,
	quote:  func(name string) string { return `"` + name + `"` },
	create: "CREATE DATABASE %s",
	drop:   "DROP DATABASE IF EXISTS %s WITH (FORCE)",
}

var mysqlDialect = dialect{
	join:   joinMySQL,
	open:   openMySQL,
	quote:  func(name string) string { return "`" + name + "`" },
	create: "CREATE DATABASE %s",
	drop:   "DROP DATABASE IF EXISTS %s",
}

var errURLForm = errors.New("want the form postgres://user:password@host:port/database")

func joinPostgres(base, database string, params []string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", errURLForm // err would show the text
	}
	if database != "" {
		u.Path = "/" + database
	} else if u.Path == "" || u.Path == "/" {
		u.Path = "/postgres"
	}
	query := u.Query()
	for _, param := range params {
		name, value, _ := strings.Cut(param, "=")
		query.Set(name, value)
	}
	// lib/pq and pgx read a plus as a space only in some versions.
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String(), nil
}

// openPostgres asks for the simple protocol, which passes through PgBouncer
// and its console too.
func openPostgres(dsn string) (*sql.DB, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err // pgx hides the password
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return stdlib.OpenDB(*config), nil
}

func joinMySQL(base, database string, params []string) (string, error) {
	config, err := mysql.ParseDSN(base)
	if err != nil {
		return "", fmt.Errorf("want the form user:password@tcp(host:port)/database: %w", err)
	}
	if database != "" {
		config.DBName = database
	}
	dsn := config.FormatDSN()
	separator := "?"
	if strings.Contains(dsn[strings.LastIndexByte(dsn, '/'):], "?") {
		separator = "&"
	}
	for _, param := range params {
		name, value, _ := strings.Cut(param, "=")
		dsn += separator + name + "=" + url.QueryEscape(value) // of two, the driver takes the last
		separator = "&"
	}
	if _, err := mysql.ParseDSN(dsn); err != nil {
		return "", err
	}
	return dsn, nil
}

// openMySQL keeps the driver from printing that a server is not up yet.
func openMySQL(dsn string) (*sql.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// ask sends one query for one value.
func ask(ctx context.Context, db *sql.DB, query string) (string, error) {
	var value string
	err := db.QueryRowContext(ctx, query).Scan(&value)
	return value, err
}
