import { readFileSync } from "node:fs";

const source = "docs/deploy/kubernetes";
const charts = "docs/deploy/charts";

/** What an installation chooses: a text of a manifest, which must be there `times` times (1), and what the chart's template has for it. */
type Choice = [text: string, template: string, times?: number];

const podLabels = (name: string): Choice => [
  `    metadata:\n      labels: { app.kubernetes.io/name: ${name} }\n`,
  `    metadata:\n      labels: { app.kubernetes.io/name: ${name} }\n      annotations:\n        checksum/config: {{ include "${name}.env" . | sha256sum }}\n`,
];
const image = (name: string, times: number): Choice => [
  `image: svc-${name}\n`,
  `image: {{ include "image" (list . "${name}") | quote }}\n`,
  times,
];
const pullSecrets: Choice = [
  "      automountServiceAccountToken: false\n",
  "      automountServiceAccountToken: false\n      {{- with .Values.images.pullSecrets }}\n      imagePullSecrets: {{- toYaml . | nindent 8 }}\n      {{- end }}\n",
];
/** A part that the pod has only where a source asks for labels of pods, after `text`. */
const forPodLabels = (text: string, part: string): Choice => [
  text,
  `${text}{{- if include "pod-labels" . }}\n${part}{{- end }}\n`,
];
const resources = (text: string, values: string): Choice => [
  `resources:\n            ${text.replaceAll("\n", "\n            ")}\n`,
  `resources: {{- toYaml ${values} | nindent 12 }}\n`,
];
const deployment = (name: string, of: { limits: string; images: number }): Choice[] => [
  ["  replicas: 2\n", `  replicas: {{ .Values.${name}.replicas }}\n`],
  podLabels(name),
  pullSecrets,
  image(name, of.images),
  resources(of.limits, `.Values.${name}.resources`),
  [`{ secretName: ${name},`, `{ secretName: {{ .Values.${name}.secret | quote }},`],
];
const namespace = (name: string, value: string, times: number): Choice => [
  `kubernetes.io/metadata.name: ${name} }`,
  `kubernetes.io/metadata.name: {{ ${value} | quote }} }`,
  times,
];
const enabled = (value: string, text: string): string => `{{- if ${value} }}\n${text}{{- end }}\n`;

/** Each template: the manifest, what an installation chooses in it, and the value that it depends on. */
const templates: readonly {
  path: string;
  from: string;
  choices: readonly Choice[];
  when?: string;
}[] = [
  {
    path: "fleet/templates/core.yaml",
    from: "core.yaml",
    choices: [
      ...deployment("core", {
        limits: "requests: { cpu: 500m, memory: 512Mi }\nlimits: { memory: 1Gi }",
        images: 2,
      }),
      [
        "  name: core-ingest\n",
        "  name: core-ingest\n  {{- with .Values.ingest.annotations }}\n  annotations: {{- toYaml . | nindent 4 }}\n  {{- end }}\n",
      ],
      ["  type: ClusterIP\n", "  type: {{ .Values.ingest.type }}\n"],
    ],
  },
  {
    path: "fleet/templates/web.yaml",
    from: "web.yaml",
    choices: deployment("web", {
      limits: "requests: { cpu: 100m, memory: 192Mi }\nlimits: { memory: 512Mi }",
      images: 1,
    }),
  },
  {
    path: "fleet/templates/ingress.yaml",
    from: "ingress.yaml",
    when: ".Values.ingress.enabled",
    choices: [
      [
        '    nginx.ingress.kubernetes.io/proxy-buffer-size: 16k\n    nginx.ingress.kubernetes.io/proxy-body-size: 12m\n    nginx.ingress.kubernetes.io/proxy-request-buffering: "off"\n',
        "    {{- toYaml .Values.ingress.annotations | nindent 4 }}\n",
      ],
      [
        "spec:\n",
        "spec:\n  {{- with .Values.ingress.className }}\n  ingressClassName: {{ . | quote }}\n  {{- end }}\n",
      ],
      [
        "hosts: [fleet.example.com, core.example.com]",
        "hosts: [{{ .Values.fleetHost | quote }}, {{ .Values.coreHost | quote }}]",
      ],
      ["secretName: edge", "secretName: {{ .Values.ingress.tlsSecret | quote }}"],
      ["host: fleet.example.com", "host: {{ .Values.fleetHost | quote }}"],
      ["host: core.example.com", "host: {{ .Values.coreHost | quote }}"],
    ],
  },
  {
    path: "fleet/templates/network-policies.yaml",
    from: "network-policies.yaml",
    when: ".Values.networkPolicies.enabled",
    choices: [
      namespace("ingress-nginx", ".Values.networkPolicies.ingressNamespace", 2),
      namespace("monitoring", ".Values.networkPolicies.monitoringNamespace", 1),
      [
        `    # For hosts outside of the cluster, add their networks: "- ipBlock: { cidr: … }".\n    - from:\n`,
        "    # Hosts outside of the cluster have their networks in `ingest.networks`.\n    - from:\n        {{- range .Values.ingest.networks }}\n        - ipBlock: { cidr: {{ . | quote }} }\n        {{- end }}\n",
      ],
      namespace("fleet-collector", ".Values.networkPolicies.collectorNamespace", 1),
    ],
  },
  {
    path: "collector/templates/daemonset.yaml",
    from: "collector/daemonset.yaml",
    choices: [
      podLabels("collector"),
      pullSecrets,
      image("collector", 3),
      ["--core=https://core.example.com", "--core=https://{{ .Values.coreHost }}"],
      ["--ingest=core-ingest.fleet.svc:8443", "--ingest={{ .Values.config.forwarder.endpoint }}"],
      [
        "--identity-prefix=spiffe://fleet.example.com/node/",
        "--identity-prefix={{ .Values.identityPrefix }}",
      ],
      resources(
        "requests: { cpu: 100m, memory: 128Mi }\nlimits: { memory: 512Mi }",
        ".Values.resources",
      ),
      [
        "audience: https://core.example.com",
        'audience: {{ printf "https://%s" .Values.coreHost | quote }}',
      ],
      forPodLabels(
        "            - { name: tmp, mountPath: /tmp }\n",
        "            - { name: api, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true }\n",
      ),
      forPodLabels(
        "          emptyDir: { sizeLimit: 64Mi }\n",
        `        - name: api
          projected:
            sources:
              - serviceAccountToken: { path: token, expirationSeconds: 3600 }
              - configMap: { name: kube-root-ca.crt }
`,
      ),
    ],
  },
  {
    path: "collector/templates/network-policies.yaml",
    from: "collector/network-policies.yaml",
    when: ".Values.networkPolicies.enabled",
    choices: [namespace("fleet", ".Values.networkPolicies.fleetNamespace", 1)],
  },
];

const choose = (manifest: string, choices: readonly Choice[], name: string): string =>
  choices.reduce((text, [from, to, times = 1]) => {
    const found = text.split(from).length - 1;
    if (found !== times)
      throw new Error(`${name} has ${found} times, not ${times}, what charts.ts replaces: ${from}`);
    return text.replaceAll(from, () => to);
  }, manifest);

/** Renders the templates of the charts from the manifests, so that both install the same. */
export const renderCharts = (): { path: string; text: string }[] =>
  templates.map(({ path, from, choices, when }) => {
    const name = `${source}/${from}`;
    const text = choose(readFileSync(name, "utf8"), choices, name);
    return { path: `${charts}/${path}`, text: when === undefined ? text : enabled(when, text) };
  });
