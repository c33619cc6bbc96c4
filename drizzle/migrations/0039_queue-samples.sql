CREATE TABLE "queue_sample" (
	"identity_id" uuid NOT NULL,
	"at" timestamp (3) with time zone NOT NULL,
	"bytes" bigint NOT NULL,
	CONSTRAINT "queue_sample_identity_id_at_pk" PRIMARY KEY("identity_id","at")
);
