package harness

import (
	"fmt"
	"math/rand/v2"
)

// newHost returns an address for servers that may be down for a while. Nobody
// takes their ports meanwhile: others, of this run and of those beside it, have
// addresses of their own. All of 127.0.0.0/8 is the loopback.
func newHost() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.N(254), rand.N(256), 1+rand.N(254))
}
