/** The `aud` of the tokens with which web calls core (docs/sign-in.md). */
export const bridgeAudience = "core";

/** The `sub` of web's own token. No person has this id; core accepts it for recording refused sign-ins only. */
export const webSubject = "web";
