/** `aud` of the tokens in which web asks core (spec, "Bridge token"). */
export const bridgeAudience = "core";

/** `sub` where web asks for itself: no person's id, so that core takes it for the record of refused sign-ins and for nothing else. */
export const webSubject = "web";
