// Least is an extender that decides nothing: every node will do, and a pod is bound where the
// scheduler says, with annotations as long as a decision's. It serves plain HTTP, keeps no state and
// reads no more of a body than it has to. kube-scheduler's rate with it says how much of an
// extender's price is the scheduler's own.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
)

var namesField = []byte(`"NodeNames":`)

// names returns what follows the field in a scheduler's body, where it is the last one.
func names(request *http.Request) ([]byte, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	at := bytes.LastIndex(body, namesField)
	if at < 0 {
		return nil, errors.New("the body has no NodeNames")
	}
	return bytes.TrimRight(body[at+len(namesField):], "} \n"), nil
}

func filter(answer http.ResponseWriter, request *http.Request) {
	list, err := names(request)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	send(answer, fmt.Appendf(nil, `{"NodeNames":%s}`, list))
}

func prioritize(answer http.ResponseWriter, request *http.Request) {
	list, err := names(request)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	text := make([]byte, 0, 4*len(list))
	separator := byte('[')
	for host := range bytes.SplitSeq(bytes.Trim(list, "[]"), []byte(",")) {
		text = append(text, separator)
		text = append(text, `{"Host":`...)
		text = append(text, host...)
		text = append(text, `,"Score":1}`...)
		separator = ','
	}
	send(answer, append(text, ']'))
}

// send answers with a length: the scheduler keeps the connection, and reads as much as there is.
func send(answer http.ResponseWriter, body []byte) {
	answer.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := answer.Write(body); err != nil {
		log.Print(err)
	}
}

const binding = `{"apiVersion":"v1","kind":"Binding","metadata":{"name":%[1]q,"namespace":%[2]q,` +
	`"uid":%[3]q,"annotations":{"tencent.com/predicate-gpu-idx-0":"3",` +
	`"tencent.com/gpu-assigned":"false","tencent.com/predicate-time":"1700000000000000000",` +
	`"tencent.com/predicate-node":%[4]q}},` +
	`"target":{"apiVersion":"v1","kind":"Node","name":%[4]q}}`

type binder struct {
	client *http.Client
	server string
}

func (b binder) bind(asked io.Reader) error {
	var what struct{ PodName, PodNamespace, PodUID, Node string }
	if err := json.NewDecoder(asked).Decode(&what); err != nil {
		return err
	}
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s/binding", b.server, what.PodNamespace, what.PodName)
	body := fmt.Sprintf(binding, what.PodName, what.PodNamespace, what.PodUID, what.Node)
	response, err := b.client.Post(url, "application/json", bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}

func (b binder) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	var said struct{ Error string }
	if err := b.bind(request.Body); err != nil {
		said.Error = err.Error()
	}
	if err := json.NewEncoder(answer).Encode(said); err != nil {
		log.Print(err)
	}
}

func client(certificate, key, authority string) (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", authority)
	}
	settings := &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: settings, ForceAttemptHTTP2: true}}, nil
}

func main() {
	listen := flag.String("listen", "", "address and port")
	server := flag.String("server", "", "the API server's URL")
	certificate := flag.String("certificate", "", "an administrator's")
	key := flag.String("key", "", "of the certificate")
	authority := flag.String("authority", "", "the API server's")
	flag.Parse()
	found, err := client(*certificate, *key, *authority)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/scheduler/filter", filter)
	http.HandleFunc("/scheduler/prioritize", prioritize)
	http.Handle("/scheduler/bind", binder{client: found, server: *server})
	log.Fatal(http.ListenAndServe(*listen, nil))
}
