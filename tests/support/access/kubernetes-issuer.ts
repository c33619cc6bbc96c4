import { startTokenIssuer } from "./token-issuer.ts";

/** The pod that a service account token is for. Members of `payload` replace those that Kubernetes writes. */
export interface TokenPod {
  node?: string;
  nodeUid?: string;
  pod?: string;
  serviceAccount?: string;
  audience?: string | string[];
  ttlSeconds?: number;
  payload?: Readonly<Record<string, unknown>>;
}

/** The issuer of a cluster's service account tokens, as the API server publishes it: discovery, and keys. */
export type KubernetesIssuer = Awaited<ReturnType<typeof startKubernetesIssuer>>;

/** The audience of the tokens, unless they name another. */
export const coreAudience = "https://core.example.com";

/** The namespace of the pods. */
export const collectorNamespace = "fleet-collector";

/** Starts an issuer, over TLS with these credentials of `localhost`. */
export const startKubernetesIssuer = async (tls?: { cert: string; key: string }) => {
  const issuer = await startTokenIssuer(tls && { tls });
  let tokens = 0;
  return Object.assign(issuer, {
    /** Where an API server publishes its keys, and docs/deploy names them. */
    keysPath: "/openid/v1/jwks",
    /** Returns the projected token of a pod at `now`, in milliseconds: of ten minutes, for `coreAudience`. */
    signPod: (
      { node = "node-1", nodeUid = `uid of ${node}`, pod = "collector-x7", ...given }: TokenPod,
      now: number,
    ) => {
      const {
        serviceAccount = "collector",
        audience = [coreAudience],
        ttlSeconds = 600,
        payload,
      } = given;
      const seconds = Math.floor(now / 1000);
      return issuer.sign({
        sub: `system:serviceaccount:${collectorNamespace}:${serviceAccount}`,
        aud: audience,
        iat: seconds,
        nbf: seconds,
        exp: seconds + ttlSeconds,
        jti: `token-${++tokens}`,
        "kubernetes.io": {
          namespace: collectorNamespace,
          serviceaccount: { name: serviceAccount, uid: `uid of ${serviceAccount}` },
          pod: { name: pod, uid: `uid of ${pod}` },
          node: { name: node, uid: nodeUid },
        },
        ...payload,
      });
    },
  });
};
