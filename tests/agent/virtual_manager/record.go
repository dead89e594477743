// Prints what gpu-client's gRPC sends: a caller like tkestack/gpu-manager's cmd/client, with the
// version of grpc that its go.mod names and its options of dialling, and a peer that keeps the
// bytes. preamble.hex is what comes before the message (a DATA frame of 14 bytes):
//
//	go mod init record && go get google.golang.org/grpc@v1.24.0 github.com/golang/protobuf@v1.3.2
//	go run . | head -c -14 | xxd -p -c 32 > preamble.hex
package main

import (
	"context"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
)

type empty struct{}

func (*empty) Reset()         {}
func (*empty) String() string { return "" }
func (*empty) ProtoMessage()  {}

func main() {
	address := "/etc/vcuda/vcuda.sock"
	near, far := net.Pipe()
	go func() {
		conn, err := grpc.Dial(address, grpc.WithInsecure(), grpc.WithBlock(),
			grpc.WithDialer(func(string, time.Duration) (net.Conn, error) { return near, nil }))
		if err != nil {
			panic(err)
		}
		_ = conn.Invoke(context.TODO(), "/vcuda.VCUDAService/RegisterVDevice", &empty{}, &empty{})
	}()
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
	var seen []byte
	buffer := make([]byte, 4096)
	wrote := false
	for {
		far.SetReadDeadline(time.Now().Add(time.Second))
		n, err := far.Read(buffer)
		seen = append(seen, buffer[:n]...)
		if err != nil {
			break
		}
		if !wrote {
			wrote = true
			go far.Write(settings)
		}
	}
	os.Stdout.Write(seen)
}
