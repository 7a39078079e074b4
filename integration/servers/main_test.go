//go:build linux

package servers

import (
	"fmt"
	"os"
	"testing"
)

// TestMain is what every package with servers has, but for the first lines:
// with this variable the test binary is the victim of
// TestServersDieWithTheTestBinary.
func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		if err := beVictim(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(Run(m))
}
