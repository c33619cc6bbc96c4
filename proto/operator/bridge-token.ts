/** The `aud` of the tokens with which web calls core (docs/sign-in.md). */
export const bridgeAudience = "core";

/** The `sub` of web's own token. No person has this id; core accepts it for recording refused sign-ins only. */
export const webSubject = "web";

/** The id of a session at web: the claim `web_session` of a token with which web calls for a person. It is not a secret. */
export const webSessionId = /^[A-Za-z0-9_-]{16,64}$/;
