//go:build cgo

package main

// cgoEnabled: go-sqlite3 is SQLite's C source, which a build without cgo leaves out.
const cgoEnabled = true
