// Checks Kubernetes manifests: every document is decoded strictly into the types of the API's own
// clients, so that an unknown field, a wrong type or an unknown kind is an error. Then it checks what
// the API server would refuse or what would never work: missing required fields, selectors that do
// not select, ports and volumes that do not exist.
//
//	manifest-check < manifests.yaml
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

// kinds makes an empty object of each kind that is known.
var kinds = map[string]func() metav1.Object{
	"v1/ConfigMap":             func() metav1.Object { return &corev1.ConfigMap{} },
	"v1/PersistentVolumeClaim": func() metav1.Object { return &corev1.PersistentVolumeClaim{} },
	"v1/Service":               func() metav1.Object { return &corev1.Service{} },
	"v1/ServiceAccount":        func() metav1.Object { return &corev1.ServiceAccount{} },
	"apps/v1/Deployment":       func() metav1.Object { return &appsv1.Deployment{} },
	"autoscaling/v2/HorizontalPodAutoscaler": func() metav1.Object {
		return &autoscalingv2.HorizontalPodAutoscaler{}
	},
	"batch/v1/Job":                            func() metav1.Object { return &batchv1.Job{} },
	"policy/v1/PodDisruptionBudget":           func() metav1.Object { return &policyv1.PodDisruptionBudget{} },
	"cert-manager.io/v1/Certificate":          func() metav1.Object { return &certmanagerv1.Certificate{} },
	"monitoring.coreos.com/v1/ServiceMonitor": func() metav1.Object { return &monitoringv1.ServiceMonitor{} },
}

func main() {
	objects, problems := read(os.Stdin)
	problems = append(problems, check(objects)...)
	if len(objects) == 0 {
		problems = append(problems, "there are no manifests")
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
	for _, object := range objects {
		fmt.Println(object.label)
	}
}

// object is a decoded document.
type object struct {
	label string
	value metav1.Object
}

// read decodes all documents.
func read(from io.Reader) (objects []object, problems []string) {
	decoder := yaml.NewYAMLReader(bufio.NewReader(from))
	for {
		document, err := decoder.Read()
		if errors.Is(err, io.EOF) {
			return objects, problems
		}
		if err != nil {
			return objects, append(problems, err.Error())
		}
		var header metav1.TypeMeta
		if err := strict.Unmarshal(document, &header); err != nil {
			problems = append(problems, err.Error())
			continue
		}
		if header.Kind == "" && len(bytes.TrimSpace(withoutComments(document))) == 0 {
			continue
		}
		kind := header.APIVersion + "/" + header.Kind
		empty, known := kinds[kind]
		if !known {
			problems = append(problems, kind+": unknown; add it to manifest-check")
			continue
		}
		value := empty()
		if err := strict.UnmarshalStrict(document, value); err != nil {
			problems = append(problems, kind+": "+err.Error())
			continue
		}
		objects = append(objects, object{header.Kind + " " + value.GetName(), value})
	}
}

// check examines all objects together.
func check(objects []object) (problems []string) {
	for _, at := range objects {
		say := func(format string, values ...any) {
			problems = append(problems, at.label+": "+fmt.Sprintf(format, values...))
		}
		for _, wrong := range utilvalidation.IsDNS1123Subdomain(at.value.GetName()) {
			say("metadata.name: %s", wrong)
		}
		for key, value := range at.value.GetLabels() {
			for _, wrong := range append(utilvalidation.IsQualifiedName(key), utilvalidation.IsValidLabelValue(value)...) {
				say("label %s: %s: %s", key, value, wrong)
			}
		}
		switch value := at.value.(type) {
		case *appsv1.Deployment:
			selects(value.Spec.Selector, value.Spec.Template.Labels, "spec.selector", say)
			checkPod(&value.Spec.Template.Spec, objects, say)
		case *batchv1.Job:
			checkPod(&value.Spec.Template.Spec, objects, say)
			if policy := value.Spec.Template.Spec.RestartPolicy; policy != corev1.RestartPolicyNever && policy != corev1.RestartPolicyOnFailure {
				say("restartPolicy: a job needs Never or OnFailure")
			}
		case *corev1.Service:
			checkService(value, objects, say)
		case *policyv1.PodDisruptionBudget:
			if (value.Spec.MinAvailable == nil) == (value.Spec.MaxUnavailable == nil) {
				say("it needs one of minAvailable and maxUnavailable")
			}
			selectsSome(value.Spec.Selector, objects, say)
		case *autoscalingv2.HorizontalPodAutoscaler:
			target := value.Spec.ScaleTargetRef
			if !has(objects, target.Kind+" "+target.Name) {
				say("there is no %s %s", target.Kind, target.Name)
			}
			if value.Spec.MinReplicas == nil || *value.Spec.MinReplicas < 1 || value.Spec.MaxReplicas < *value.Spec.MinReplicas {
				say("minReplicas and maxReplicas are out of order")
			}
			for _, metric := range value.Spec.Metrics {
				checkMetric(metric, say)
			}
		case *monitoringv1.ServiceMonitor:
			checkMonitor(value, objects, say)
		case *certmanagerv1.Certificate:
			if value.Spec.SecretName == "" || len(value.Spec.DNSNames) == 0 || value.Spec.IssuerRef.Name == "" {
				say("secretName, dnsNames and issuerRef.name are required")
			}
		case *corev1.PersistentVolumeClaim:
			if len(value.Spec.AccessModes) == 0 || value.Spec.Resources.Requests.Storage().IsZero() {
				say("accessModes and resources.requests.storage are required")
			}
		}
	}
	return problems
}

type sayer func(format string, values ...any)

// checkPod examines the ports, volumes and probes of a pod.
func checkPod(pod *corev1.PodSpec, objects []object, say sayer) {
	volumes := map[string]bool{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
		if source := volume.ConfigMap; source != nil && !has(objects, "ConfigMap "+source.Name) {
			say("volume %s: there is no ConfigMap %s", volume.Name, source.Name)
		}
		if source := volume.PersistentVolumeClaim; source != nil && !has(objects, "PersistentVolumeClaim "+source.ClaimName) {
			say("volume %s: there is no PersistentVolumeClaim %s", volume.Name, source.ClaimName)
		}
	}
	if name := pod.ServiceAccountName; name != "" && name != "default" && !has(objects, "ServiceAccount "+name) {
		say("there is no ServiceAccount %s", name)
	}
	if len(pod.Containers) == 0 {
		say("there are no containers")
	}
	for _, container := range pod.Containers {
		if container.Name == "" || container.Image == "" {
			say("a container needs a name and an image")
		}
		for _, mount := range container.VolumeMounts {
			if !volumes[mount.Name] || mount.MountPath == "" {
				say("volumeMounts: there is no volume %s, or it has no path", mount.Name)
			}
		}
		ports := portsOf(container)
		for _, probe := range []*corev1.Probe{container.ReadinessProbe, container.LivenessProbe, container.StartupProbe} {
			if probe != nil && probe.HTTPGet != nil && !named(probe.HTTPGet.Port, ports) {
				say("a probe has port %s, which the container has not", probe.HTTPGet.Port.String())
			}
		}
		for name, limit := range container.Resources.Limits {
			if request, has := container.Resources.Requests[name]; has && request.Cmp(limit) > 0 {
				say("the request of %s exceeds its limit", name)
			}
		}
	}
}

// checkService examines the ports of a service and the pods it selects.
func checkService(service *corev1.Service, objects []object, say sayer) {
	pods := 0
	for _, at := range objects {
		deployment, is := at.value.(*appsv1.Deployment)
		if !is || !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(deployment.Spec.Template.Labels)) {
			continue
		}
		pods++
		ports := map[string]bool{}
		for _, container := range deployment.Spec.Template.Spec.Containers {
			for name := range portsOf(container) {
				ports[name] = true
			}
		}
		for _, port := range service.Spec.Ports {
			if !named(port.TargetPort, ports) {
				say("port %s: the pods have no port %s", port.Name, port.TargetPort.String())
			}
		}
	}
	if pods == 0 || len(service.Spec.Ports) == 0 {
		say("it selects no pods, or has no ports")
	}
}

// checkMetric examines a metric of an autoscaler.
func checkMetric(metric autoscalingv2.MetricSpec, say sayer) {
	switch {
	case metric.Type == autoscalingv2.PodsMetricSourceType && metric.Pods != nil:
		if metric.Pods.Metric.Name == "" || metric.Pods.Target.AverageValue == nil {
			say("a metric of pods needs a name and an averageValue")
		}
	case metric.Type == autoscalingv2.ResourceMetricSourceType && metric.Resource != nil:
		if metric.Resource.Target.AverageUtilization == nil {
			say("a metric of a resource needs averageUtilization")
		}
	default:
		say("metric of type %s without its source", metric.Type)
	}
}

// checkMonitor examines whether a monitor selects a service with its ports.
func checkMonitor(monitor *monitoringv1.ServiceMonitor, objects []object, say sayer) {
	for _, at := range objects {
		service, is := at.value.(*corev1.Service)
		if !is {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(service.Labels)) {
			continue
		}
		ports := map[string]bool{}
		for _, port := range service.Spec.Ports {
			ports[port.Name] = true
		}
		for _, endpoint := range monitor.Spec.Endpoints {
			if ports[endpoint.Port] {
				return
			}
		}
	}
	say("it selects no service that has its port")
}

// selectsSome reports a selector that matches no deployment's pods.
func selectsSome(selector *metav1.LabelSelector, objects []object, say sayer) {
	for _, at := range objects {
		if deployment, is := at.value.(*appsv1.Deployment); is {
			selects(selector, deployment.Spec.Template.Labels, "spec.selector", say)
			return
		}
	}
	say("there are no pods to select")
}

func selects(selector *metav1.LabelSelector, set map[string]string, what string, say sayer) {
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || selector == nil || !compiled.Matches(labels.Set(set)) {
		say("%s does not select the pods", what)
	}
}

// portsOf returns the names and numbers of a container's ports.
func portsOf(container corev1.Container) map[string]bool {
	ports := map[string]bool{}
	for _, port := range container.Ports {
		ports[port.Name] = true
		ports[fmt.Sprint(port.ContainerPort)] = true
	}
	return ports
}

func named(port intstr.IntOrString, ports map[string]bool) bool {
	return port.String() != "" && ports[port.String()]
}

func has(objects []object, label string) bool {
	for _, at := range objects {
		if at.label == label {
			return true
		}
	}
	return false
}

// withoutComments removes the lines of comments.
func withoutComments(document []byte) []byte {
	var rest [][]byte
	for _, line := range bytes.Split(document, []byte("\n")) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
			rest = append(rest, line)
		}
	}
	return bytes.Join(rest, []byte("\n"))
}
