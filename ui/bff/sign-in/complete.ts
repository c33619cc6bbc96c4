import { addressKey } from "#kit/address.ts";
import type { Web } from "../web.ts";
import type { Attempt } from "./attempt.ts";
import { type AuthorizationCode, CodeRejected } from "./authorization-code.ts";
import { freshSeconds } from "./fresh-sign-in.ts";
import { findPersonBySubject } from "./people.ts";
import { type Authenticated, type Provider, ProviderUnavailable } from "./provider.ts";
import { providerErrors, SignInRefusal } from "./refusal.ts";

/** The callback that causes an exchange. */
interface ExchangeOwner {
  /** The attempt's `state`. */
  attempt: string;
  /** The direct remote address. Behind a proxy all people share it, so its limit is wide. */
  address: string;
}

interface Entry extends ExchangeOwner {
  evict(): void;
}

interface GateParts {
  provider: Provider;
  flow: AuthorizationCode;
  exchanges: ReturnType<typeof createExchanges>;
}

/**
 * Creates the sign-in gate (docs/sign-in.md). It checks the provider's response against the attempt, exchanges the code, verifies the
 * id_token, and admits an active person of the directory. Throws a `SignInRefusal` for any other person.
 */
export const createGate =
  (parts: Pick<Web, "config" | "db"> & GateParts) =>
  async (response: URLSearchParams, attempt: Attempt | null, remoteAddress: string) => {
    const callback = { attempt, remoteAddress };
    const authenticated = await authenticate(parts, response, callback);
    const { subject, authenticationAgeSeconds, providerSessionId, idToken } = authenticated;
    const { tenantId } = parts.config;
    const person = await findPersonBySubject(parts.db, { tenantId, subject }).catch(
      (cause: unknown) => {
        throw new SignInRefusal("sign_in_unavailable", { cause, part: "web_database" });
      },
    );
    if (person === undefined)
      throw new SignInRefusal("not_in_directory", { person: { userId: null, subject } });
    const { userId, displayName, status } = person;
    if (status !== "active") throw new SignInRefusal(status, { person: { userId, subject } });
    const isOld = authenticationAgeSeconds !== null && authenticationAgeSeconds > freshSeconds;
    if (isOld && attempt?.isFresh)
      throw new SignInRefusal("sign_in_not_fresh", { person: { userId, subject } });
    return { userId, displayName, authenticationAgeSeconds, providerSessionId, idToken };
  };

/** Reports that a newer exchange took the slot. */
export class ExchangeEvicted extends Error {
  override readonly name = "ExchangeEvicted";
}

const perAddressMax = 64;
const totalMax = 256;

/**
 * Creates the limit of one process: at most one exchange per attempt, 64 per address and 256 in all. Anybody can send a callback, and a
 * stalled provider answers none of them. When full, evicts the oldest exchange: of the attempt, of the address, or of the address with most.
 */
export const createExchanges = () => {
  /** In order of arrival. */
  const running = new Set<Entry>();

  const makeRoom = ({ attempt, address }: ExchangeOwner) => {
    const entries = [...running];
    const sameAddress = entries.filter((entry) => entry.address === address);
    const oldest =
      entries.find((entry) => entry.attempt === attempt) ??
      (sameAddress.length >= perAddressMax ? sameAddress[0] : undefined) ??
      (entries.length >= totalMax ? largestGroup(entries)[0] : undefined);
    if (oldest === undefined) return;
    running.delete(oldest);
    oldest.evict();
  };

  return {
    /** Returns the result of `work`. Throws `ExchangeEvicted` when a newer callback takes the slot. */
    run: async <Result>(
      { attempt, address }: ExchangeOwner,
      work: () => Promise<Result>,
    ): Promise<Result> => {
      const { promise: evicted, reject } = Promise.withResolvers<never>();
      const evict = () => reject(new ExchangeEvicted("a newer callback took the slot"));
      const entry: Entry = { attempt, address: addressKey(address), evict };
      makeRoom(entry);
      running.add(entry);
      try {
        return await Promise.race([work(), evicted]);
      } finally {
        running.delete(entry);
      }
    },
  };
};

/** Returns the entries of the address that has most. */
const largestGroup = (entries: readonly Entry[]): Entry[] =>
  [...Map.groupBy(entries, ({ address }) => address).values()].reduce((largest, group) =>
    group.length > largest.length ? group : largest,
  );

/** Returns a parameter of the response, which must not repeat (RFC 6749, 3.1). */
const only = (response: URLSearchParams, name: string) => {
  const values = response.getAll(name);
  if (values.length > 1) throw failed(`${name} is repeated`);
  return values[0] ?? null;
};

const failed = (reason: string, cause?: unknown): SignInRefusal =>
  new SignInRefusal("sign_in_failed", { cause: new Error(reason, { cause }) });

const authenticate = async (
  { provider, flow, exchanges }: GateParts,
  response: URLSearchParams,
  { attempt, remoteAddress }: { attempt: Attempt | null; remoteAddress: string },
): Promise<Authenticated & { idToken: string }> => {
  if (attempt === null) throw failed("there is no attempt");
  if (only(response, "state") !== attempt.state) throw failed("state does not match");
  const metadata = await provider.metadata().catch(unavailable);
  const issuer = only(response, "iss");
  if (issuer === null ? metadata.namesIssuerInResponse : issuer !== metadata.issuer)
    throw failed("iss is not the provider");
  const error = only(response, "error");
  if (error === "access_denied") throw new SignInRefusal("sign_in_cancelled");
  if (error !== null) throw rejected(error);
  const code = only(response, "code");
  if (code === null) throw failed("the response has no code");

  const exchange = async () => {
    const grant = { code, codeVerifier: attempt.codeVerifier };
    const idToken = await flow.exchange(metadata.tokenEndpoint, grant).catch((cause: unknown) => {
      throw cause instanceof CodeRejected
        ? failed("the provider rejected the code", cause)
        : unavailable(cause);
    });
    const authenticated = await provider
      .authenticatedBy(idToken, attempt)
      .catch((cause: unknown) => {
        if (cause instanceof ProviderUnavailable) return unavailable(cause);
        // The provider accepted the code, so a real sign-in failed: audit it.
        throw new SignInRefusal("sign_in_failed", {
          cause,
          person: { userId: null, subject: null },
        });
      });
    return { ...authenticated, idToken };
  };
  return exchanges
    .run({ attempt: attempt.state, address: remoteAddress }, exchange)
    .catch((cause: unknown) =>
      cause instanceof ExchangeEvicted ? evicted(cause) : Promise.reject(cause),
    );
};

/** Returns the refusal for an error of the provider. Does not quote an error that no standard names. */
const rejected = (error: string): SignInRefusal => {
  const part = providerErrors.find((name) => name === error) ?? null;
  const cause = new Error(`the provider answered ${part ?? "an error"}`);
  if (error === "server_error" || error === "temporarily_unavailable")
    return new SignInRefusal("sign_in_unavailable", { cause, part: "identity_provider" });
  return new SignInRefusal("sign_in_rejected", { cause, part });
};

const unavailable = (cause: unknown): never => {
  throw new SignInRefusal("sign_in_unavailable", { cause, part: "identity_provider" });
};

const evicted = (cause: ExchangeEvicted): never => {
  throw new SignInRefusal("sign_in_unavailable", { cause });
};
