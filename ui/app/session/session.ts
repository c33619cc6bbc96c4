import { Session } from "../../../proto/operator/session.ts";
import type { Api } from "../api/api.ts";

/** `GET /api/session`; rejects with an `ApiProblem` of status 401 when nobody is signed in. */
export const fetchSession = (api: Api, signal?: AbortSignal): Promise<Session> =>
  api.get("/api/session", Session, signal);

/** Where signing in begins, and comes back to this address of ours. */
export const signInPath = ({ pathname, search }: Pick<Location, "pathname" | "search">): string =>
  `/api/auth/login?${new URLSearchParams({ return_to: pathname + search })}`;
