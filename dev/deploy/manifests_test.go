// Package deploy_test checks the manifests of the directory deploy by the types from which the
// schemas of Kubernetes and of the Prometheus Operator are made.
package deploy_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// manifests are the objects of a file.
type manifests struct {
	deployment apps.Deployment
	service    core.Service
	monitor    monitoring.ServiceMonitor
}

// read reads a file. A field that the API server does not know, or that has another type, fails the
// test.
func read(t *testing.T, file string) (m manifests) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			t.Fatal(err)
		}
		into := map[[2]string]any{
			{"apps/v1", "Deployment"}:                      &m.deployment,
			{"v1", "Service"}:                              &m.service,
			{"monitoring.coreos.com/v1", "ServiceMonitor"}: &m.monitor,
		}[[2]string{kind.APIVersion, kind.Kind}]
		if into == nil {
			t.Fatalf("%s: %q is not known", file, kind)
		}
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Fatalf("%s: %s: %v", file, kind.Kind, err)
		}
	}
	return m
}

// TestManifestsAreWhatKubernetesTakes: all fields are known, and those that it asks for are there.
func TestManifestsAreWhatKubernetesTakes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../deploy/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("there are none", err)
	}
	for _, file := range files {
		d := read(t, file).deployment
		pod := d.Spec.Template
		if d.Name == "" || len(pod.Spec.Containers) == 0 || !within(d.Spec.Selector.MatchLabels, pod.Labels) {
			t.Errorf("%s: no name, no container, or a selector that does not select its pods", file)
		}
		names := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			names[v.Name] = true
		}
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if c.Name == "" || c.Image == "" {
				t.Errorf("%s: a container without a name or an image", file)
			}
			for _, m := range c.VolumeMounts {
				if !names[m.Name] {
					t.Errorf("%s: no volume %s", file, m.Name)
				}
			}
		}
	}
}

// TestServeIsScraped: the ServiceMonitor finds the Service, that finds the pods, and the port is that
// of the metrics, by the name that the alerts know.
func TestServeIsScraped(t *testing.T) {
	t.Parallel()
	m := read(t, "../../deploy/serve.yaml")
	pod := m.deployment.Spec.Template
	if !within(m.service.Spec.Selector, pod.Labels) || !within(m.monitor.Spec.Selector.MatchLabels, m.service.Labels) {
		t.Error("a selector selects nothing")
	}
	c := pod.Spec.Containers[0]
	port := m.service.Spec.Ports[0]
	if m.monitor.Spec.Endpoints[0].Port != port.Name || port.TargetPort.StrVal != c.Ports[0].Name || c.ReadinessProbe.HTTPGet.Port.StrVal != c.Ports[0].Name {
		t.Errorf("ports: %+v, %+v, %+v", m.monitor.Spec.Endpoints, port, c.Ports)
	}
	if c.Args[0] != "serve" || !slices.Contains(c.Args, ":9357") || c.Ports[0].ContainerPort != 9357 || port.Port != 9357 {
		t.Errorf("%v does not listen where %+v is", c.Args, c.Ports)
	}
	if name := m.service.Name; name != "berth" && !strings.HasPrefix(name, "berth-") {
		t.Errorf("the alerts do not know the job %q", name)
	}
}

// within reports whether a selector is not empty and selects what has labels.
func within(selector, labels map[string]string) bool {
	merged := maps.Clone(labels)
	maps.Copy(merged, selector)
	return len(selector) > 0 && maps.Equal(merged, labels)
}
