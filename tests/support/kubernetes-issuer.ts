import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";

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

/** Starts an issuer on loopback, over TLS with these credentials of `localhost`. */
export const startKubernetesIssuer = async (tls?: { cert: string; key: string }) => {
  let kid = 0;
  const nextKey = async () => ({
    kid: `key-${++kid}`,
    ...(await generateKeyPair("ES256", { extractable: true })),
  });
  let key = await nextKey();
  let keysPath = "/openid/v1/jwks";
  const listen: RequestListener = async (request, response) => {
    const documents: Record<string, unknown> = {
      "/.well-known/openid-configuration": {
        issuer: issuer.url,
        jwks_uri: `${issuer.url}${keysPath}`,
      },
      [keysPath]: {
        keys: [{ ...(await exportJWK(key.publicKey)), kid: key.kid, use: "sig", alg: "ES256" }],
      },
    };
    const found = issuer.isDown ? undefined : documents[request.url ?? ""];
    response.writeHead(found === undefined ? 503 : 200, { "Content-Type": "application/json" });
    response.end(JSON.stringify(found ?? {}));
  };
  const server = tls === undefined ? createServer(listen) : createTlsServer(tls, listen);
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  let tokens = 0;
  const issuer = {
    url: tls === undefined ? `http://127.0.0.1:${port}` : `https://localhost:${port}`,
    /** Answers no request with what it asks for. */
    isDown: false,
    /** Replaces the key that signs: the old one is published no more. */
    rotate: async () => {
      key = await nextKey();
    },
    /** As `rotate`, and publishes the keys at another address. */
    move: async () => {
      keysPath = `/moved${keysPath}`;
      key = await nextKey();
    },
    /** Returns the projected token of a pod at `now`, in milliseconds: of ten minutes, for `audience`. */
    sign: (
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
      const claims = {
        iss: issuer.url,
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
      };
      return new SignJWT(claims)
        .setProtectedHeader({ alg: "ES256", kid: key.kid })
        .sign(key.privateKey);
    },
    close: () => server.close(),
  };
  return issuer;
};
