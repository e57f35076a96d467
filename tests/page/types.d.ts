// What the page adds to the documents of the API in api.d.ts.
// These types are read by the type checker alone and are sent to nobody.

declare namespace Api {
  /** A node in no group stands beside the others, with the reason for that. */
  interface Node {
    reason?: Reason;
    /** Of a picture of the past: how its GPUs were used is not kept, and `gpus` is 0. */
    is_uncounted?: boolean;
  }
  type NodesOfJob = Pick<Job, "selector" | "tolerations" | "exclude">;
  type Placement = Fits | NoFit;
}

/** The texts of the page, by language. */
type Texts = Record<string, string>;

/** What may stand in an element; null, undefined and false are nothing. */
type Child = Node | string | number | null | undefined | false | Child[];
