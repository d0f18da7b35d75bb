"""What Go says of the API's types and OpenAPI does not, for `tools.make_schema`.

Facts from k8s.io/api and k8s.io/apimachinery 1.37. Without an entry here, an optional boolean,
integer or structure is a pointer, integers have 32 bits, maps hold strings, and optional fields are
left out when empty (`omitempty`).
"""

from __future__ import annotations

from typing import NamedTuple


class AddedField(NamedTuple):
    """An optional field: its type as lightkube-models would write it, and its text."""

    annotation: str
    text: str


ADDED: dict[str, dict[str, AddedField]] = {}
"""Fields that the installed lightkube-models does not have, by type and name.

`{"resource.v1.ResourceClaimSpec": {"note": AddedField("str", "A note for people.")}}`: the type is
written without `Optional`, which is added. An optional string has no pointer, so empty is absent;
an entry in `FIELDS` gives it one. A field is added to each served version of its kind that has it.
An entry goes when a new release of the models has the field; fields of dray's own stay.
"""

FIELDS: dict[str, str] = {
    "admissionregistration.v1.AuditAnnotation": "key=,always valueExpression=,always",
    "admissionregistration.v1.ExpressionWarning": "fieldRef=,always warning=,always",
    "admissionregistration.v1.MatchCondition": "expression=,always name=,always",
    "admissionregistration.v1.MatchResources": "matchPolicy=*MatchPolicyType",
    "admissionregistration.v1.NamedRuleWithOperations": (
        "operations=[]OperationType scope=*ScopeType"
    ),
    "admissionregistration.v1.ParamRef": "parameterNotFoundAction=*ParameterNotFoundActionType",
    "admissionregistration.v1.ValidatingAdmissionPolicy": (
        "spec=ValidatingAdmissionPolicySpec,omitempty status=ValidatingAdmissionPolicyStatus"
    ),
    "admissionregistration.v1.ValidatingAdmissionPolicyBinding": (
        "spec=ValidatingAdmissionPolicyBindingSpec,omitempty"
    ),
    "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec": (
        "validationActions=[]ValidationAction"
    ),
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": "failurePolicy=*FailurePolicyType",
    "admissionregistration.v1.ValidatingAdmissionPolicyStatus": "observedGeneration=int64",
    "admissionregistration.v1.Validation": "expression=,always reason=*meta.v1.StatusReason",
    "admissionregistration.v1.Variable": "expression=,always name=,always",
    "apps.v1.ControllerRevision": "revision=int64,always",
    "apps.v1.DaemonSet": "spec=,omitempty",
    "apps.v1.DaemonSetCondition": (
        "lastTransitionTime=Time status=core.v1.ConditionStatus,always "
        "type=DaemonSetConditionType,always"
    ),
    "apps.v1.DaemonSetSpec": (
        "minReadySeconds=int32 selector=*meta.v1.LabelSelector "
        "updateStrategy=DaemonSetUpdateStrategy"
    ),
    "apps.v1.DaemonSetStatus": (
        "numberAvailable=int32 numberUnavailable=int32 observedGeneration=int64 "
        "updatedNumberScheduled=int32"
    ),
    "apps.v1.DaemonSetUpdateStrategy": "type=DaemonSetUpdateStrategyType",
    "apps.v1.Deployment": "spec=,omitempty",
    "apps.v1.DeploymentCondition": (
        "lastTransitionTime=Time lastUpdateTime=Time status=core.v1.ConditionStatus,always "
        "type=DeploymentConditionType,always"
    ),
    "apps.v1.DeploymentSpec": (
        "minReadySeconds=int32 paused=bool selector=*meta.v1.LabelSelector "
        "strategy=DeploymentStrategy"
    ),
    "apps.v1.DeploymentStatus": (
        "availableReplicas=int32 observedGeneration=int64 readyReplicas=int32 replicas=int32 "
        "unavailableReplicas=int32 updatedReplicas=int32"
    ),
    "apps.v1.DeploymentStrategy": "type=DeploymentStrategyType",
    "apps.v1.ReplicaSet": "spec=,omitempty",
    "apps.v1.ReplicaSetCondition": (
        "lastTransitionTime=Time status=core.v1.ConditionStatus,always "
        "type=ReplicaSetConditionType,always"
    ),
    "apps.v1.ReplicaSetSpec": (
        "minReadySeconds=int32 selector=*meta.v1.LabelSelector template=core.v1.PodTemplateSpec"
    ),
    "apps.v1.ReplicaSetStatus": (
        "availableReplicas=int32 fullyLabeledReplicas=int32 observedGeneration=int64 "
        "readyReplicas=int32"
    ),
    "apps.v1.StatefulSet": "spec=,omitempty",
    "apps.v1.StatefulSetCondition": (
        "lastTransitionTime=Time status=core.v1.ConditionStatus,always "
        "type=StatefulSetConditionType,always"
    ),
    "apps.v1.StatefulSetOrdinals": "start=int32,always",
    "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": (
        "whenDeleted=PersistentVolumeClaimRetentionPolicyType "
        "whenScaled=PersistentVolumeClaimRetentionPolicyType"
    ),
    "apps.v1.StatefulSetSpec": (
        "minReadySeconds=int32 podManagementPolicy=PodManagementPolicyType "
        "selector=*meta.v1.LabelSelector serviceName=,always "
        "updateStrategy=StatefulSetUpdateStrategy"
    ),
    "apps.v1.StatefulSetStatus": (
        "availableReplicas=int32,always currentReplicas=int32 observedGeneration=int64 "
        "readyReplicas=int32 updatedReplicas=int32"
    ),
    "apps.v1.StatefulSetUpdateStrategy": "type=StatefulSetUpdateStrategyType",
    "authentication.v1.BoundObjectReference": "uid=types.UID",
    "authentication.v1.SelfSubjectReviewStatus": "userInfo=UserInfo",
    "authentication.v1.TokenRequest": "spec=,always",
    "authentication.v1.TokenRequestSpec": (
        "attestations=map[string]AttestationValue audiences=,always boundObjectRef=,always "
        "expirationSeconds=*int64,always"
    ),
    "authentication.v1.TokenRequestStatus": "expirationTimestamp=Time,always token=,always",
    "authentication.v1.TokenReviewStatus": "authenticated=bool user=UserInfo",
    "authentication.v1.UserInfo": "extra=map[string]ExtraValue",
    "authorization.v1.SubjectAccessReviewSpec": "extra=map[string]ExtraValue",
    "authorization.v1.SubjectAccessReviewStatus": "denied=bool",
    "autoscaling.v1.ScaleSpec": "replicas=int32",
    "batch.v1.CronJob": "spec=,omitempty",
    "batch.v1.CronJobSpec": (
        "concurrencyPolicy=ConcurrencyPolicy startingDeadlineSeconds=*int64 timeZone=*string"
    ),
    "batch.v1.JobCondition": (
        "lastProbeTime=Time lastTransitionTime=Time status=core.v1.ConditionStatus "
        "type=JobConditionType"
    ),
    "batch.v1.JobSpec": (
        "activeDeadlineSeconds=*int64 completionMode=*CompletionMode managedBy=*string "
        "podReplacementPolicy=*PodReplacementPolicy"
    ),
    "batch.v1.JobStatus": "active=int32 failed=int32 failedIndexes=*string succeeded=int32",
    "batch.v1.JobTemplateSpec": "metadata=meta.v1.ObjectMeta spec=JobSpec",
    "batch.v1.PodFailurePolicyOnExitCodesRequirement": (
        "containerName=*string operator=PodFailurePolicyOnExitCodesOperator"
    ),
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": (
        "status=core.v1.ConditionStatus,always type=core.v1.PodConditionType"
    ),
    "batch.v1.PodFailurePolicyRule": "action=PodFailurePolicyAction",
    "batch.v1.SuccessPolicyRule": "succeededIndexes=*string",
    "batch.v1.UncountedTerminatedPods": "failed=[]types.UID succeeded=[]types.UID",
    "coordination.v1.LeaseSpec": (
        "holderIdentity=*string preferredHolder=*string strategy=*CoordinatedLeaseStrategy"
    ),
    "core.v1.AWSElasticBlockStoreVolumeSource": "partition=int32 readOnly=bool",
    "core.v1.AppArmorProfile": "localhostProfile=*string type=AppArmorProfileType",
    "core.v1.AttachedVolume": "name=UniqueVolumeName",
    "core.v1.AzureDiskVolumeSource": (
        "cachingMode=*AzureDataDiskCachingMode fsType=*string kind=*AzureDataDiskKind"
    ),
    "core.v1.AzureFilePersistentVolumeSource": "readOnly=bool secretNamespace=*string,always",
    "core.v1.AzureFileVolumeSource": "readOnly=bool",
    "core.v1.CSIPersistentVolumeSource": "readOnly=bool",
    "core.v1.CSIVolumeSource": "fsType=*string",
    "core.v1.Capabilities": "add=[]Capability drop=[]Capability",
    "core.v1.CephFSPersistentVolumeSource": "readOnly=bool",
    "core.v1.CephFSVolumeSource": "readOnly=bool",
    "core.v1.CinderPersistentVolumeSource": "readOnly=bool",
    "core.v1.CinderVolumeSource": "readOnly=bool",
    "core.v1.ClusterTrustBundleProjection": "name=*string signerName=*string user=*int64",
    "core.v1.ConfigMap": "binaryData=map[string][]byte",
    "core.v1.ConfigMapNodeConfigSource": "uid=types.UID",
    "core.v1.ConfigMapVolumeSource": "defaultUser=*int64",
    "core.v1.Container": (
        "imagePullPolicy=PullPolicy resources=ResourceRequirements "
        "restartPolicy=*ContainerRestartPolicy stdin=bool stdinOnce=bool "
        "terminationMessagePolicy=TerminationMessagePolicy tty=bool"
    ),
    "core.v1.ContainerImage": "names=,always sizeBytes=int64",
    "core.v1.ContainerPort": "hostPort=int32 protocol=Protocol",
    "core.v1.ContainerResizePolicy": (
        "resourceName=ResourceName restartPolicy=ResourceResizeRestartPolicy"
    ),
    "core.v1.ContainerRestartRule": "action=ContainerRestartRuleAction,omitempty",
    "core.v1.ContainerRestartRuleOnExitCodes": (
        "operator=ContainerRestartRuleOnExitCodesOperator,omitempty"
    ),
    "core.v1.ContainerStateRunning": "startedAt=Time",
    "core.v1.ContainerStateTerminated": "finishedAt=Time signal=int32 startedAt=Time",
    "core.v1.ContainerStatus": (
        "allocatedResources=ResourceList lastState=ContainerState state=ContainerState "
        "stopSignal=*Signal"
    ),
    "core.v1.DownwardAPIVolumeFile": "user=*int64",
    "core.v1.DownwardAPIVolumeSource": "defaultUser=*int64",
    "core.v1.EmptyDirVolumeSource": "medium=StorageMedium",
    "core.v1.EphemeralContainer": (
        "imagePullPolicy=PullPolicy resources=ResourceRequirements "
        "restartPolicy=*ContainerRestartPolicy stdin=bool stdinOnce=bool "
        "terminationMessagePolicy=TerminationMessagePolicy tty=bool"
    ),
    "core.v1.Event": (
        "count=int32 eventTime=MicroTime firstTimestamp=Time lastTimestamp=Time "
        "reportingComponent=,always reportingInstance=,always source=EventSource"
    ),
    "core.v1.EventSeries": "count=int32 lastObservedTime=MicroTime",
    "core.v1.EvictionResponder": "priority=*int32",
    "core.v1.FCVolumeSource": "readOnly=bool",
    "core.v1.FlexPersistentVolumeSource": "readOnly=bool",
    "core.v1.FlexVolumeSource": "readOnly=bool",
    "core.v1.GCEPersistentDiskVolumeSource": "partition=int32 readOnly=bool",
    "core.v1.GRPCAction": "mode=*GRPCProbeMode service=*string,always",
    "core.v1.GlusterfsPersistentVolumeSource": "endpointsNamespace=*string readOnly=bool",
    "core.v1.GlusterfsVolumeSource": "readOnly=bool",
    "core.v1.HTTPGetAction": "protocol=*HTTPProtocol scheme=URIScheme",
    "core.v1.HostPathVolumeSource": "type=*HostPathType",
    "core.v1.ISCSIPersistentVolumeSource": (
        "chapAuthDiscovery=bool chapAuthSession=bool initiatorName=*string readOnly=bool"
    ),
    "core.v1.ISCSIVolumeSource": (
        "chapAuthDiscovery=bool chapAuthSession=bool initiatorName=*string readOnly=bool"
    ),
    "core.v1.ImageVolumeSource": "pullPolicy=PullPolicy",
    "core.v1.ImageVolumeStatus": "imageRef=,omitempty",
    "core.v1.KeyToPath": "user=*int64",
    "core.v1.Lifecycle": "stopSignal=*Signal",
    "core.v1.LinuxContainerUser": "gid=int64 supplementalGroups=[]int64 uid=int64",
    "core.v1.LoadBalancerIngress": "ipMode=*LoadBalancerIPMode",
    "core.v1.LimitRange": "spec=LimitRangeSpec,omitempty",
    "core.v1.LimitRangeItem": (
        "default=ResourceList defaultRequest=ResourceList max=ResourceList "
        "maxLimitRequestRatio=ResourceList min=ResourceList type=LimitType"
    ),
    "core.v1.LocalVolumeSource": "fsType=*string",
    "core.v1.ModifyVolumeStatus": "status=PersistentVolumeClaimModifyVolumeStatus",
    "core.v1.NFSVolumeSource": "readOnly=bool",
    "core.v1.NamespaceCondition": (
        "lastTransitionTime=Time status=ConditionStatus type=NamespaceConditionType"
    ),
    "core.v1.NamespaceSpec": "finalizers=[]FinalizerName",
    "core.v1.NamespaceStatus": "phase=NamespacePhase",
    "core.v1.NodeAddress": "type=NodeAddressType",
    "core.v1.NodeAllocatableMappedResources": "name=ResourceName quantity=*Quantity",
    "core.v1.NodeAllocatableOverheadResources": "name=ResourceName",
    "core.v1.NodeCondition": (
        "lastHeartbeatTime=Time lastTransitionTime=Time status=ConditionStatus "
        "type=NodeConditionType"
    ),
    "core.v1.NodeDaemonEndpoints": "kubeletEndpoint=DaemonEndpoint",
    "core.v1.NodeRuntimeHandler": "name=,always",
    "core.v1.NodeSelectorRequirement": "operator=NodeSelectorOperator",
    "core.v1.NodeSpec": "unschedulable=bool",
    "core.v1.NodeStatus": (
        "allocatable=ResourceList capacity=ResourceList daemonEndpoints=NodeDaemonEndpoints "
        "nodeInfo=NodeSystemInfo phase=NodePhase volumesInUse=[]UniqueVolumeName"
    ),
    "core.v1.NodeSwapStatus": "capacity=*int64",
    "core.v1.ObjectReference": "uid=types.UID",
    "core.v1.PersistentVolumeClaimCondition": (
        "lastProbeTime=Time lastTransitionTime=Time status=ConditionStatus "
        "type=PersistentVolumeClaimConditionType"
    ),
    "core.v1.PersistentVolumeClaimSpec": (
        "accessModes=[]PersistentVolumeAccessMode resources=VolumeResourceRequirements "
        "storageClassName=*string volumeAttributesClassName=*string "
        "volumeMode=*PersistentVolumeMode"
    ),
    "core.v1.PersistentVolumeClaimStatus": (
        "accessModes=[]PersistentVolumeAccessMode "
        "allocatedResourceStatuses=map[ResourceName]ClaimResourceStatus "
        "allocatedResources=ResourceList capacity=ResourceList "
        "currentVolumeAttributesClassName=*string phase=PersistentVolumeClaimPhase"
    ),
    "core.v1.PersistentVolumeClaimTemplate": "metadata=meta.v1.ObjectMeta",
    "core.v1.PersistentVolumeClaimVolumeSource": "readOnly=bool",
    "core.v1.PersistentVolumeSpec": (
        "accessModes=[]PersistentVolumeAccessMode capacity=ResourceList "
        "persistentVolumeReclaimPolicy=PersistentVolumeReclaimPolicy "
        "volumeAttributesClassName=*string volumeMode=*PersistentVolumeMode"
    ),
    "core.v1.PersistentVolumeStatus": "phase=PersistentVolumePhase",
    "core.v1.PodCertificateProjection": "keyType=,omitempty signerName=,omitempty user=*int64",
    "core.v1.PodCondition": (
        "lastProbeTime=Time lastTransitionTime=Time observedGeneration=int64 "
        "status=ConditionStatus type=PodConditionType"
    ),
    "core.v1.PodDNSConfigOption": "value=*string",
    "core.v1.PodOS": "name=OSName",
    "core.v1.PodReadinessGate": "conditionType=PodConditionType",
    "core.v1.PodResourceClaim": "resourceClaimName=*string resourceClaimTemplateName=*string",
    "core.v1.PodResourceClaimStatus": "resourceClaimName=*string",
    "core.v1.PodSchedulingGroup": "podGroupName=*string",
    "core.v1.PodSecurityContext": (
        "fsGroup=*int64 fsGroupChangePolicy=*PodFSGroupChangePolicy runAsGroup=*int64 "
        "runAsUser=*int64 seLinuxChangePolicy=*PodSELinuxChangePolicy supplementalGroups=[]int64 "
        "supplementalGroupsPolicy=*SupplementalGroupsPolicy"
    ),
    "core.v1.PodSpec": (
        "activeDeadlineSeconds=*int64 dnsPolicy=DNSPolicy hostIPC=bool hostNetwork=bool "
        "hostPID=bool hostnameOverride=*string overhead=ResourceList "
        "preemptionPolicy=*PreemptionPolicy restartPolicy=RestartPolicy runtimeClassName=*string "
        "terminationGracePeriodSeconds=*int64"
    ),
    "core.v1.PodStatus": (
        "allocatedResources=ResourceList observedGeneration=int64 phase=PodPhase "
        "qosClass=PodQOSClass resize=PodResizeStatus"
    ),
    "core.v1.PodTemplateSpec": "metadata=meta.v1.ObjectMeta spec=PodSpec",
    "core.v1.PodVolumeHealth": "lastTransitionTime=Time",
    "core.v1.PortStatus": "error=*string protocol=Protocol",
    "core.v1.PortworxVolumeSource": "readOnly=bool",
    "core.v1.Probe": (
        "failureThreshold=int32 initialDelaySeconds=int32 periodSeconds=int32 "
        "successThreshold=int32 terminationGracePeriodSeconds=*int64 timeoutSeconds=int32"
    ),
    "core.v1.ProjectedVolumeSource": "defaultUser=*int64 sources=,always",
    "core.v1.QuobyteVolumeSource": "readOnly=bool",
    "core.v1.RBDPersistentVolumeSource": "readOnly=bool",
    "core.v1.RBDVolumeSource": "readOnly=bool",
    "core.v1.ReplicationControllerCondition": (
        "lastTransitionTime=Time status=ConditionStatus type=ReplicationControllerConditionType"
    ),
    "core.v1.ReplicationControllerSpec": "minReadySeconds=int32",
    "core.v1.ReplicationControllerStatus": (
        "availableReplicas=int32 fullyLabeledReplicas=int32 observedGeneration=int64 "
        "readyReplicas=int32"
    ),
    "core.v1.ResourceFieldSelector": "divisor=Quantity",
    "core.v1.ResourceHealth": "health=ResourceHealthStatus message=*string resourceID=ResourceID",
    "core.v1.ResourceQuotaSpec": "hard=ResourceList scopes=[]ResourceQuotaScope",
    "core.v1.ResourceQuotaStatus": "hard=ResourceList used=ResourceList",
    "core.v1.ResourceRequirements": "limits=ResourceList requests=ResourceList",
    "core.v1.ResourceStatus": "name=ResourceName",
    "core.v1.ScaleIOPersistentVolumeSource": (
        "readOnly=bool secretRef=*SecretReference sslEnabled=bool"
    ),
    "core.v1.ScaleIOVolumeSource": "readOnly=bool secretRef=*LocalObjectReference sslEnabled=bool",
    "core.v1.ScopedResourceSelectorRequirement": (
        "operator=ScopeSelectorOperator scopeName=ResourceQuotaScope"
    ),
    "core.v1.SeccompProfile": "localhostProfile=*string type=SeccompProfileType",
    "core.v1.Secret": "data=map[string][]byte type=SecretType",
    "core.v1.SecretVolumeSource": "defaultUser=*int64",
    "core.v1.SecurityContext": "procMount=*ProcMountType runAsGroup=*int64 runAsUser=*int64",
    "core.v1.ServiceAccountTokenProjection": "expirationSeconds=*int64 user=*int64",
    "core.v1.ServicePort": (
        "appProtocol=*string nodePort=int32 protocol=Protocol targetPort=IntOrString"
    ),
    "core.v1.ServiceSpec": (
        "externalTrafficPolicy=ServiceExternalTrafficPolicy healthCheckNodePort=int32 "
        "internalTrafficPolicy=*ServiceInternalTrafficPolicy ipFamilies=[]IPFamily "
        "ipFamilyPolicy=*IPFamilyPolicy loadBalancerClass=*string publishNotReadyAddresses=bool "
        "sessionAffinity=ServiceAffinity trafficDistribution=*string type=ServiceType"
    ),
    "core.v1.ServiceStatus": "loadBalancer=LoadBalancerStatus",
    "core.v1.SleepAction": "seconds=int64",
    "core.v1.StorageOSPersistentVolumeSource": "readOnly=bool",
    "core.v1.StorageOSVolumeSource": "readOnly=bool",
    "core.v1.Taint": "effect=TaintEffect",
    "core.v1.Toleration": (
        "effect=TaintEffect operator=TolerationOperator tolerationSeconds=*int64"
    ),
    "core.v1.TopologySpreadConstraint": (
        "nodeAffinityPolicy=*NodeInclusionPolicy nodeTaintsPolicy=*NodeInclusionPolicy "
        "whenUnsatisfiable=UnsatisfiableConstraintAction"
    ),
    "core.v1.TypedLocalObjectReference": "apiGroup=*string,always",
    "core.v1.TypedObjectReference": "apiGroup=*string,always namespace=*string",
    "core.v1.VolumeHealthCondition": "status=VolumeHealthStatusType",
    "core.v1.VolumeHealthStatus": "lastTransitionTime=Time",
    "core.v1.VolumeMount": (
        "mountPropagation=*MountPropagationMode readOnly=bool "
        "recursiveReadOnly=*RecursiveReadOnlyMode"
    ),
    "core.v1.VolumeMountStatus": "readOnly=bool recursiveReadOnly=*RecursiveReadOnlyMode",
    "core.v1.VolumeResourceRequirements": "limits=ResourceList requests=ResourceList",
    "core.v1.WindowsSecurityContextOptions": (
        "gmsaCredentialSpec=*string gmsaCredentialSpecName=*string runAsUserName=*string"
    ),
    "discovery.v1.Endpoint": (
        "conditions=discovery.v1.EndpointConditions hostname=*string nodeName=*string zone=*string"
    ),
    "discovery.v1.EndpointPort": "appProtocol=*string name=*string protocol=*core.v1.Protocol",
    "discovery.v1.EndpointSlice": (
        "addressType=AddressType endpoints=[]discovery.v1.Endpoint,always "
        "ports=[]discovery.v1.EndpointPort,always"
    ),
    "events.v1.Event": (
        "deprecatedCount=int32 deprecatedFirstTimestamp=Time deprecatedLastTimestamp=Time "
        "deprecatedSource=core.v1.EventSource metadata=,always regarding=core.v1.ObjectReference"
    ),
    "meta.v1.APIGroup": "preferredVersion=GroupVersionForDiscovery",
    "meta.v1.APIResource": "verbs=Verbs",
    "meta.v1.Condition": "observedGeneration=int64 status=ConditionStatus",
    "meta.v1.DeleteOptions": "gracePeriodSeconds=*int64 propagationPolicy=*DeletionPropagation",
    "meta.v1.FieldSelectorRequirement": "operator=FieldSelectorOperator",
    "meta.v1.LabelSelectorRequirement": "operator=LabelSelectorOperator",
    "meta.v1.ListMeta": "remainingItemCount=*int64",
    "meta.v1.ManagedFieldsEntry": "operation=ManagedFieldsOperationType",
    "meta.v1.ObjectMeta": (
        "creationTimestamp=Time,omitzero deletionGracePeriodSeconds=*int64 generation=int64 "
        "uid=types.UID"
    ),
    "meta.v1.OwnerReference": "uid=types.UID",
    "meta.v1.Preconditions": "resourceVersion=*string uid=*types.UID",
    "meta.v1.Status": "code=int32 reason=StatusReason",
    "meta.v1.StatusCause": "reason=CauseType",
    "meta.v1.StatusDetails": "retryAfterSeconds=int32 uid=types.UID",
    "node.v1.Overhead": "podFixed=core.v1.ResourceList",
    "policy.v1.PodDisruptionBudgetSpec": (
        "unhealthyPodEvictionPolicy=*UnhealthyPodEvictionPolicyType"
    ),
    "policy.v1.PodDisruptionBudgetStatus": (
        "currentHealthy=int32,always desiredHealthy=int32,always disruptedPods=map[string]Time "
        "disruptionsAllowed=int32,always expectedPods=int32,always observedGeneration=int64"
    ),
    "rbac.v1.ClusterRole": "rules=,always",
    "rbac.v1.Role": "rules=,always",
    "rbac.v1.RoleRef": "apiGroup=,always",
    "resource.v1.AllocatedDeviceStatus": "conditions=,always shareID=*string",
    "resource.v1.AllocationResult": "devices=DeviceAllocationResult",
    "resource.v1.CapacityRequestPolicy": "default=,always",
    "resource.v1.CapacityRequestPolicyRange": "min=*Quantity,omitempty",
    "resource.v1.CapacityRequirements": "requests=map[QualifiedName]Quantity",
    "resource.v1.CounterSet": "counters=map[string]Counter,omitempty",
    "resource.v1.Device": (
        "attributes=map[QualifiedName]DeviceAttribute capacity=map[QualifiedName]DeviceCapacity "
        "nodeAllocatableResources=map[core.v1.ResourceName]NodeAllocatableResource "
        "nodeName=*string"
    ),
    "resource.v1.DeviceAllocationConfiguration": "source=AllocationConfigSource",
    "resource.v1.DeviceAttribute": "int=*int64 ints=[]int64 string=*string version=*string",
    "resource.v1.DeviceClaim": "requests=,always",
    "resource.v1.DeviceClass": "spec=,always",
    "resource.v1.DeviceClassSpec": "extendedResourceName=*string",
    "resource.v1.DeviceConstraint": (
        "distinctAttribute=*FullyQualifiedName matchAttribute=*FullyQualifiedName"
    ),
    "resource.v1.DeviceCounterConsumption": "counters=map[string]Counter,omitempty",
    "resource.v1.DeviceDerivedAttribute": "name=FullyQualifiedName",
    "resource.v1.DeviceRequestAllocationResult": (
        "consumedCapacity=map[QualifiedName]Quantity shareID=*types.UID "
        "skipNodeOperations=[]SkipNodeOperation"
    ),
    "resource.v1.DeviceSubRequest": "allocationMode=DeviceAllocationMode count=int64",
    "resource.v1.DeviceTaint": "effect=DeviceTaintEffect",
    "resource.v1.DeviceTaintRuleSpec": "taint=,omitempty",
    "resource.v1.DeviceTaintSelector": "device=*string driver=*string pool=*string",
    "resource.v1.DeviceToleration": (
        "effect=DeviceTaintEffect operator=DeviceTolerationOperator tolerationSeconds=*int64"
    ),
    "resource.v1.ExactDeviceRequest": "allocationMode=DeviceAllocationMode count=int64",
    "resource.v1.NodeAllocatableMapping": "capacityKey=*QualifiedName",
    "resource.v1.ResourceClaim": "spec=,always",
    "resource.v1.ResourceClaimConsumerReference": "uid=types.UID",
    "resource.v1.ResourceClaimSpec": "devices=DeviceClaim,always",
    "resource.v1.ResourceClaimTemplate": "spec=,always",
    "resource.v1.ResourceClaimTemplateSpec": (
        "metadata=meta.v1.ObjectMeta spec=ResourceClaimSpec,always"
    ),
    "resource.v1.ResourcePool": "generation=int64 resourceSliceCount=int64",
    "resource.v1.ResourceSliceSpec": (
        "nodeName=*string partitionTypeAttribute=*FullyQualifiedName "
        "skipNodeOperations=[]SkipNodeOperation"
    ),
    "resource.v1alpha3.DeviceTaint": "effect=DeviceTaintEffect",
    "resource.v1alpha3.DeviceTaintRuleSpec": "taint=,omitempty",
    "resource.v1alpha3.DeviceTaintSelector": "device=*string driver=*string pool=*string",
    "resource.v1alpha3.PartitionTypeStatus": (
        "allocatable=*int32,omitempty attribute=,omitempty total=*int32,omitempty type=,omitempty"
    ),
    "resource.v1alpha3.PoolStatus": (
        "driver=,omitempty generation=int64 nodeName=*string poolName=,omitempty "
        "validationError=*string"
    ),
    "resource.v1alpha3.ResourcePoolStatusRequest": (
        "metadata=,omitempty status=*ResourcePoolStatusRequestStatus"
    ),
    "resource.v1alpha3.ResourcePoolStatusRequestSpec": (
        "defaultPartitionTypeAttribute=*string poolName=*string"
    ),
    "resource.v1alpha3.ResourcePoolStatusRequestStatus": "poolCount=*int32,omitempty",
    "resource.v1alpha3.ShareableCapacityStatus": (
        "available=*Quantity,omitempty consumed=*Quantity,omitempty name=,omitempty "
        "total=*Quantity,omitempty"
    ),
    "resource.v1alpha3.ShareableSummaryStatus": (
        "fullyAvailableDevices=*int32,omitempty partiallyAvailableDevices=*int32,omitempty"
    ),
    "resource.v1beta1.AllocatedDeviceStatus": "conditions=,always shareID=*string",
    "resource.v1beta1.AllocationResult": "devices=DeviceAllocationResult",
    "resource.v1beta1.BasicDevice": (
        "attributes=map[QualifiedName]DeviceAttribute capacity=map[QualifiedName]DeviceCapacity "
        "nodeAllocatableResources=map[core.v1.ResourceName]NodeAllocatableResource "
        "nodeName=*string"
    ),
    "resource.v1beta1.CapacityRequestPolicy": "default=,always",
    "resource.v1beta1.CapacityRequestPolicyRange": "min=*Quantity,omitempty",
    "resource.v1beta1.CapacityRequirements": "requests=map[QualifiedName]Quantity",
    "resource.v1beta1.CounterSet": "counters=map[string]Counter,omitempty",
    "resource.v1beta1.DeviceAllocationConfiguration": "source=AllocationConfigSource",
    "resource.v1beta1.DeviceAttribute": "int=*int64 ints=[]int64 string=*string version=*string",
    "resource.v1beta1.DeviceClaim": "requests=,always",
    "resource.v1beta1.DeviceClass": "spec=,always",
    "resource.v1beta1.DeviceClassSpec": "extendedResourceName=*string",
    "resource.v1beta1.DeviceConstraint": (
        "distinctAttribute=*FullyQualifiedName matchAttribute=*FullyQualifiedName"
    ),
    "resource.v1beta1.DeviceCounterConsumption": "counters=map[string]Counter,omitempty",
    "resource.v1beta1.DeviceDerivedAttribute": "name=FullyQualifiedName",
    "resource.v1beta1.DeviceRequest": (
        "allocationMode=DeviceAllocationMode count=int64 deviceClassName=,always"
    ),
    "resource.v1beta1.DeviceRequestAllocationResult": (
        "consumedCapacity=map[QualifiedName]Quantity shareID=*types.UID "
        "skipNodeOperations=[]SkipNodeOperation"
    ),
    "resource.v1beta1.DeviceSubRequest": "allocationMode=DeviceAllocationMode count=int64",
    "resource.v1beta1.DeviceTaint": "effect=DeviceTaintEffect",
    "resource.v1beta1.DeviceToleration": (
        "effect=DeviceTaintEffect operator=DeviceTolerationOperator tolerationSeconds=*int64"
    ),
    "resource.v1beta1.NodeAllocatableMapping": "capacityKey=*QualifiedName",
    "resource.v1beta1.ResourceClaim": "spec=,always",
    "resource.v1beta1.ResourceClaimConsumerReference": "uid=types.UID",
    "resource.v1beta1.ResourceClaimSpec": "devices=DeviceClaim,always",
    "resource.v1beta1.ResourceClaimTemplate": "spec=,always",
    "resource.v1beta1.ResourceClaimTemplateSpec": (
        "metadata=meta.v1.ObjectMeta spec=ResourceClaimSpec,always"
    ),
    "resource.v1beta1.ResourcePool": "generation=int64 resourceSliceCount=int64",
    "resource.v1beta1.ResourceSliceSpec": (
        "allNodes=bool partitionTypeAttribute=*FullyQualifiedName "
        "skipNodeOperations=[]SkipNodeOperation"
    ),
    "resource.v1beta2.AllocatedDeviceStatus": "conditions=,always shareID=*string",
    "resource.v1beta2.AllocationResult": "devices=DeviceAllocationResult",
    "resource.v1beta2.CapacityRequestPolicy": "default=,always",
    "resource.v1beta2.CapacityRequestPolicyRange": "min=*Quantity,omitempty",
    "resource.v1beta2.CapacityRequirements": "requests=map[QualifiedName]Quantity",
    "resource.v1beta2.CounterSet": "counters=map[string]Counter,omitempty",
    "resource.v1beta2.Device": (
        "attributes=map[QualifiedName]DeviceAttribute capacity=map[QualifiedName]DeviceCapacity "
        "nodeAllocatableResources=map[core.v1.ResourceName]NodeAllocatableResource "
        "nodeName=*string"
    ),
    "resource.v1beta2.DeviceAllocationConfiguration": "source=AllocationConfigSource",
    "resource.v1beta2.DeviceAttribute": "int=*int64 ints=[]int64 string=*string version=*string",
    "resource.v1beta2.DeviceClaim": "requests=,always",
    "resource.v1beta2.DeviceClass": "spec=,always",
    "resource.v1beta2.DeviceClassSpec": "extendedResourceName=*string",
    "resource.v1beta2.DeviceConstraint": (
        "distinctAttribute=*FullyQualifiedName matchAttribute=*FullyQualifiedName"
    ),
    "resource.v1beta2.DeviceCounterConsumption": "counters=map[string]Counter,omitempty",
    "resource.v1beta2.DeviceDerivedAttribute": "name=FullyQualifiedName",
    "resource.v1beta2.DeviceRequestAllocationResult": (
        "consumedCapacity=map[QualifiedName]Quantity shareID=*types.UID "
        "skipNodeOperations=[]SkipNodeOperation"
    ),
    "resource.v1beta2.DeviceSubRequest": "allocationMode=DeviceAllocationMode count=int64",
    "resource.v1beta2.DeviceTaint": "effect=DeviceTaintEffect",
    "resource.v1beta2.DeviceTaintRuleSpec": "taint=,omitempty",
    "resource.v1beta2.DeviceTaintSelector": "device=*string driver=*string pool=*string",
    "resource.v1beta2.DeviceToleration": (
        "effect=DeviceTaintEffect operator=DeviceTolerationOperator tolerationSeconds=*int64"
    ),
    "resource.v1beta2.ExactDeviceRequest": "allocationMode=DeviceAllocationMode count=int64",
    "resource.v1beta2.NodeAllocatableMapping": "capacityKey=*QualifiedName",
    "resource.v1beta2.ResourceClaim": "spec=,always",
    "resource.v1beta2.ResourceClaimConsumerReference": "uid=types.UID",
    "resource.v1beta2.ResourceClaimSpec": "devices=DeviceClaim,always",
    "resource.v1beta2.ResourceClaimTemplate": "spec=,always",
    "resource.v1beta2.ResourceClaimTemplateSpec": (
        "metadata=meta.v1.ObjectMeta spec=ResourceClaimSpec,always"
    ),
    "resource.v1beta2.ResourcePool": "generation=int64 resourceSliceCount=int64",
    "resource.v1beta2.ResourceSliceSpec": (
        "nodeName=*string partitionTypeAttribute=*FullyQualifiedName "
        "skipNodeOperations=[]SkipNodeOperation"
    ),
    "scheduling.v1.PriorityClass": (
        "globalDefault=bool preemptionPolicy=*core.v1.PreemptionPolicy value=int32,always"
    ),
    "scheduling.v1alpha3.WorkloadPodGroupResourceClaim": (
        "resourceClaimName=*string resourceClaimTemplateName=*string"
    ),
    "scheduling.v1beta1.PodGroupResourceClaim": (
        "resourceClaimName=*string resourceClaimTemplateName=*string"
    ),
    "scheduling.v1beta1.PodGroupResourceClaimStatus": "resourceClaimName=*string",
    "scheduling.v1beta1.PodGroupSpec": (
        "parentCompositePodGroupName=*string preemptionPolicy=*PreemptionPolicy"
    ),
    "scheduling.v1beta1.CompositePodGroupTemplate": "preemptionPolicy=*PreemptionPolicy",
    "scheduling.v1beta1.PodGroupTemplate": (
        "preemptionPolicy=*PreemptionPolicy schedulingConstraints=,always"
    ),
    "scheduling.v1beta1.WorkloadSpec": "podGroupTemplates=,always",
    "storage.v1.CSIDriverSpec": (
        "fsGroupPolicy=*FSGroupPolicy nodeAllocatableUpdatePeriodSeconds=*int64 "
        "volumeLifecycleModes=[]VolumeLifecycleMode"
    ),
    "storage.v1.CSINodeDriver": "topologyKeys=,always",
    "storage.v1.StorageClass": (
        "reclaimPolicy=*core.v1.PersistentVolumeReclaimPolicy volumeBindingMode=*VolumeBindingMode"
    ),
    "storage.v1.StorageHealthCondition": (
        "accessMode=*core.v1.PersistentVolumeAccessMode lastTransitionTime=Time "
        "status=StorageHealthStatusType volumeMode=*core.v1.PersistentVolumeMode"
    ),
    "storage.v1.TokenRequest": "expirationSeconds=*int64",
    "storage.v1.VolumeAttachmentSource": "persistentVolumeName=*string",
    "storage.v1.VolumeError": "time=Time",
}
"""Per type `field=type`, then `,` and `always`, `omitempty` or `omitzero` where that differs.

Names without a package are of the type's own package; one that is no structure is a string type.
"""

NAMED: dict[str, str] = {
    "authentication.v1.AttestationValue": "[]string",
    "authentication.v1.ExtraValue": "[]string",
    "authorization.v1.ExtraValue": "[]string",
    "core.v1.ResourceList": "map[core.v1.ResourceName]Quantity",
    "meta.v1.Verbs": "[]string",
}
"""Named types that are neither structures nor strings."""

EMBEDDED: dict[str, tuple[str, tuple[str, ...]]] = {
    "core.v1.ConfigMapEnvSource": ("LocalObjectReference", ("optional",)),
    "core.v1.ConfigMapKeySelector": ("LocalObjectReference", ("key", "optional")),
    "core.v1.ConfigMapProjection": ("LocalObjectReference", ("items", "optional")),
    "core.v1.ConfigMapVolumeSource": (
        "LocalObjectReference",
        ("defaultMode", "defaultUser", "items", "optional"),
    ),
    "core.v1.EphemeralContainer": ("EphemeralContainerCommon", ("targetContainerName",)),
    "core.v1.PersistentVolumeSpec": (
        "PersistentVolumeSource",
        (
            "accessModes",
            "capacity",
            "claimRef",
            "mountOptions",
            "nodeAffinity",
            "persistentVolumeReclaimPolicy",
            "storageClassName",
            "volumeAttributesClassName",
            "volumeMode",
        ),
    ),
    "core.v1.Probe": (
        "ProbeHandler",
        (
            "failureThreshold",
            "initialDelaySeconds",
            "periodSeconds",
            "successThreshold",
            "terminationGracePeriodSeconds",
            "timeoutSeconds",
        ),
    ),
    "core.v1.SecretEnvSource": ("LocalObjectReference", ("optional",)),
    "core.v1.SecretKeySelector": ("LocalObjectReference", ("key", "optional")),
    "core.v1.SecretProjection": ("LocalObjectReference", ("items", "optional")),
    "core.v1.Volume": ("VolumeSource", ("name",)),
    "meta.v1.APIGroup": (
        "TypeMeta",
        ("name", "preferredVersion", "serverAddressByClientCIDRs", "versions"),
    ),
    "meta.v1.APIGroupList": ("TypeMeta", ("groups",)),
    "meta.v1.APIResourceList": ("TypeMeta", ("groupVersion", "resources")),
    "meta.v1.APIVersions": ("TypeMeta", ("serverAddressByClientCIDRs", "versions")),
    "meta.v1.DeleteOptions": (
        "TypeMeta",
        (
            "dryRun",
            "gracePeriodSeconds",
            "ignoreStoreReadErrorWithClusterBreakingPotential",
            "orphanDependents",
            "preconditions",
            "propagationPolicy",
        ),
    ),
    "resource.v1.DeviceAllocationConfiguration": ("DeviceConfiguration", ("requests", "source")),
    "resource.v1.DeviceClaimConfiguration": ("DeviceConfiguration", ("requests",)),
    "resource.v1.DeviceClassConfiguration": ("DeviceConfiguration", ()),
    "resource.v1beta1.DeviceAllocationConfiguration": (
        "DeviceConfiguration",
        ("requests", "source"),
    ),
    "resource.v1beta1.DeviceClaimConfiguration": ("DeviceConfiguration", ("requests",)),
    "resource.v1beta1.DeviceClassConfiguration": ("DeviceConfiguration", ()),
    "resource.v1beta2.DeviceAllocationConfiguration": (
        "DeviceConfiguration",
        ("requests", "source"),
    ),
    "resource.v1beta2.DeviceClaimConfiguration": ("DeviceConfiguration", ("requests",)),
    "resource.v1beta2.DeviceClassConfiguration": ("DeviceConfiguration", ()),
}
"""The structure that a type embeds, and the fields that are nevertheless its own."""
