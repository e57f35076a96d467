package v1beta1

// QueueAllocationGateKey is the one constant that Volcano 1.15 uses and the newest module of its
// types that can be fetched lacks: the gate, and the annotation that asks for it.
const QueueAllocationGateKey = GroupName + "/queue-allocation-gate"
