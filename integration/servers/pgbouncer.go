package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// pgbouncerINI has a place for the port: see prepare and command. Without a
// Unix socket it ends where its port is taken, instead of serving the socket.
const pgbouncerINI = `[databases]
* = %s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pidfile = %s
auth_type = any
admin_users = postgres
pool_mode = transaction
max_client_conn = 500
default_pool_size = 40
ignore_startup_parameters = extra_float_digits,options
`

func findPgBouncer(of *Server) (*launcher, error) {
	if of == nil || of.engine.product != "PostgreSQL" {
		return nil, errors.New("servers: a PgBouncer needs a PostgreSQL that it stands before")
	}
	program, err := lookDaemon("pgbouncer")
	if err != nil {
		return nil, missing(KindPgBouncer, "pgbouncer", "no pgbouncer in PATH or /usr/sbin")
	}
	account, err := accountFor(KindPgBouncer, "postgresql pgbouncer", "postgres")
	if err != nil {
		return nil, err
	}
	target, err := pgbouncerTarget(of.DSN(""))
	if err != nil {
		return nil, fmt.Errorf("servers: PgBouncer before %s: %w", of.Name, err)
	}
	config := func(dir string) string { return filepath.Join(dir, "pgbouncer.ini") }
	text := func(dir string, port int) string {
		ini := fmt.Sprintf(pgbouncerINI, target, filepath.Join(dir, "pid"))
		return strings.ReplaceAll(ini, "{port}", strconv.Itoa(port))
	}
	return &launcher{
		kind:    KindPgBouncer,
		name:    "pgbouncer",
		account: account,
		prepare: func(context.Context, string) error { return nil },
		command: func(dir string, port int) []string {
			// It takes no port from the command line. A file that cannot be
			// written shows in its log.
			path := config(dir)
			if os.WriteFile(path, []byte(text(dir, port)), 0o600) == nil { // may hold a password
				account.own(path)
			}
			return []string{program, path}
		},
		stale: []string{"pid"},
		base: func(port int) string {
			return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
		},
		console: "pgbouncer",
		identify: func(ctx context.Context, db *sql.DB) (string, error) {
			rows, err := db.QueryContext(ctx, "SHOW CONFIG")
			if err != nil {
				return "", err
			}
			defer rows.Close()
			columns, err := rows.Columns() // their number differs by version
			if err != nil {
				return "", err
			}
			var key, value sql.NullString
			fields := []any{&key, &value}
			for len(fields) < len(columns) {
				fields = append(fields, new(any))
			}
			for rows.Next() {
				if err := rows.Scan(fields...); err != nil {
					return "", err
				}
				if key.String == "pidfile" {
					return value.String, nil
				}
			}
			return "", fmt.Errorf("SHOW CONFIG has no pidfile: %v", rows.Err())
		},
		shutdown: syscall.SIGINT, // when the transactions are done
		abort:    syscall.SIGKILL,
		death:    syscall.SIGKILL,
	}, nil
}

// pgbouncerTarget is the line of the configuration that leads to a server.
func pgbouncerTarget(dsn string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", errURLForm
	}
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	line := "host=" + u.Hostname() + " port=" + port
	if name := u.User.Username(); name != "" {
		line += " user=" + quoteINI(name)
	}
	if password, ok := u.User.Password(); ok {
		line += " password=" + quoteINI(password)
	}
	return line, nil
}

func quoteINI(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// consoleVersion asks the pooler's console; "" where that is closed.
func (s *Server) consoleVersion(ctx context.Context) string {
	dsn, err := s.engine.dsn.join(s.base, "pgbouncer", nil)
	if err != nil {
		return ""
	}
	db, err := s.engine.dsn.open(dsn)
	if err != nil {
		return ""
	}
	defer db.Close()
	version, _ := ask(ctx, db, "SHOW VERSION")
	return strings.TrimPrefix(version, "PgBouncer ")
}
