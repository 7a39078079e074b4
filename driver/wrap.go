package fencedsql

//lint:file-ignore SA1019 old drivers have the deprecated interfaces, and database/sql still asks for them

import (
	"database/sql/driver"
	"io"
)

// database/sql finds out by type assertion what a driver can do, and takes another way where an interface is missing. So
// a wrapper must have exactly the optional interfaces of the value it wraps: one too few and a driver loses its ping, one
// too many and database/sql asks for what the driver cannot do. In Go the interfaces of a value are fixed by its type,
// hence one type for every set of them: 1024 for connections. wrap_gen.go holds them; it is written so:
//
//   - The values that do the work (fullConn, fullStmt, …) have all interfaces.
//   - A shim holds one such value and passes every method on.
//   - A combination embeds the shim and hides what the wrapped value does not have: a field hides every method of the same
//     name that is embedded more deeply, so one empty field for each method is enough. The fields come in two halves, the
//     second of which embeds the shim, because two fields for each of the 1024 types are less than ten.
//
// A pointer to a combination is one allocation of two words, and its methods are jumps to the shim's. What is left of the
// cost is the linker's 200 bytes for each of some 9000 jumps: 2 MB of a stripped binary. The obvious form,
// struct{ driver.Conn; driver.Pinger; … }, is a method with a frame for each jump, 12 MB, and up to 22 words a value.

//go:generate go run ./internal/wrapgen

// hidden is the type of a field that is there for its name only. It takes no space, and a struct that has one cannot be
// compared, which saves the compiler an equality function for each combination.
type hidden [0]func()

// connWrapper is what every wrapped connection has.
type connWrapper interface {
	driver.Conn
	// Unwrap returns the driver's own connection.
	Unwrap() driver.Conn
}

// fullConn is a connection with every optional interface that database/sql asks a connection for. A method that the
// wrapped connection does not have is never called.
type fullConn interface {
	connWrapper
	driver.Pinger
	driver.Execer
	driver.ExecerContext
	driver.Queryer
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

// wrapConn returns full with exactly the optional interfaces that inner has.
func wrapConn(full fullConn, inner driver.Conn) driver.Conn {
	return connWith(full, connMask(inner))
}

// stmtWrapper is what every wrapped statement has.
type stmtWrapper interface {
	driver.Stmt
	// Unwrap returns the driver's own statement.
	Unwrap() driver.Stmt
}

// fullStmt is a statement with every optional interface that database/sql asks a statement for. A method that the
// wrapped statement does not have is never called.
type fullStmt interface {
	stmtWrapper
	driver.StmtExecContext
	driver.StmtQueryContext
	driver.NamedValueChecker
	driver.ColumnConverter
}

// wrapStmt returns full with exactly the optional interfaces that inner has.
func wrapStmt(full fullStmt, inner driver.Stmt) driver.Stmt {
	return stmtWith(full, stmtMask(inner))
}

// rowsWrapper is what every wrapped result has.
type rowsWrapper interface {
	driver.Rows
	// Unwrap returns the driver's own rows.
	Unwrap() driver.Rows
}

// fullRows is a result with every optional interface that database/sql asks a result for. A method that the wrapped
// result does not have is never called.
type fullRows interface {
	rowsWrapper
	driver.RowsNextResultSet
	driver.RowsColumnTypeScanType
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
}

// wrapRows returns full with exactly the optional interfaces that inner has.
func wrapRows(full fullRows, inner driver.Rows) driver.Rows {
	return rowsWith(full, rowsMask(inner))
}

// fullConnector is a connector with the optional interface that database/sql asks a connector for. Close is never called
// if the wrapped connector does not have it.
type fullConnector interface {
	driver.Connector
	io.Closer
}

// wrapConnector returns full with exactly the optional interfaces that inner has.
func wrapConnector(full fullConnector, inner driver.Connector) driver.Connector {
	return connectorWith(full, connectorMask(inner))
}
