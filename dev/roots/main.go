// Command roots writes the certificates of the authorities that Mozilla trusts, in PEM form, to
// standard output: for the container image, which has no others. It leaves out authorities that are
// no longer trusted for new certificates, because a file cannot say so.
package main

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "roots:", err)
		os.Exit(1)
	}
}

func write(to io.Writer) error {
	out := bufio.NewWriter(to)
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	return out.Flush()
}
