package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// pickPort gives a loopback port that was free a moment ago; start tries
// another where it has been lost. A variable for tests.
var pickPort = freePort

// freePort looks below the ports that Linux gives to clients (32768 and up): a
// server that is down for a restart would lose one of those to the next
// outgoing connection.
func freePort() (int, error) {
	const lowest, number = 18000, 14000
	var last error
	for range 100 {
		port := lowest + rand.IntN(number)
		listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		return port, listener.Close()
	}
	return 0, errors.Join(errors.New("no free port"), last)
}
