/**
 * A server of OpAMP over HTTPS on the library opamp-go, in Go: it decodes the report of an agent and answers it, the least that a server
 * can do. It neither verifies a signature nor stores the report. Its arguments are an address and the files of certificate and key.
 */
export const opampServerSource = `package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"

	"github.com/open-telemetry/opamp-go/protobufs"
	"github.com/open-telemetry/opamp-go/server"
	"github.com/open-telemetry/opamp-go/server/types"
)

func main() {
	certificate, err := tls.LoadX509KeyPair(os.Args[2], os.Args[3])
	if err != nil {
		panic(err)
	}
	callbacks := types.ConnectionCallbacks{
		OnMessage: func(_ context.Context, _ types.Connection, message *protobufs.AgentToServer) *protobufs.ServerToAgent {
			return &protobufs.ServerToAgent{InstanceUid: message.InstanceUid}
		},
	}
	opamp := server.New(nil)
	err = opamp.Start(server.StartSettings{
		ListenEndpoint: os.Args[1],
		ListenPath:     "/v1/opamp",
		TLSConfig:      &tls.Config{Certificates: []tls.Certificate{certificate}},
		Settings: server.Settings{Callbacks: types.Callbacks{
			OnConnecting: func(*http.Request) types.ConnectionResponse {
				return types.ConnectionResponse{Accept: true, ConnectionCallbacks: callbacks}
			},
		}},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	select {}
}
`;
